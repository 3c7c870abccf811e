"""Budget and Account: what streams hold, need and may hold."""

from __future__ import annotations

import pickle
import threading

import pytest

from feedline.errors import OverMemoryLimit
from feedline.graph.memory import Budget


def test_what_is_in_use_is_the_sum_of_all_accounts():
    budget = Budget()
    one, other = budget.account("map"), budget.account("batch")
    one.hold(100)
    other.hold(50)
    one.hold(30)
    assert (budget.in_use, budget.most) == (80, 150)
    one.close()
    other.close()
    assert (budget.in_use, budget.most) == (0, 150)


def test_nothing_counts_after_the_account_is_closed():
    budget = Budget(100)
    account = budget.account("map")
    account.hold(10, need=10)
    account.close()
    account.hold(60, need=60)
    assert (budget.in_use, budget.needed, budget.promised) == (0, 0, 0)


def test_without_a_limit_everything_may_be_held():
    account = Budget().account("prefetch")
    account.hold(10**15, need=10**15)
    assert account.may_hold(10**15)


def test_needs_and_reserves_leave_no_room_for_others():
    budget = Budget(100)
    budget.is_settled = True
    budget.account("map", reserve=20)
    budget.account("shuffle").hold(10, need=50)
    ahead = budget.account("prefetch")
    assert ahead.may_hold(30)
    assert not ahead.may_hold(31)


def test_little_is_held_ahead_until_all_needs_are_known():
    budget = Budget(800)
    budget.account("map").hold(400, need=400)
    ahead, other = budget.account("prefetch"), budget.account("prefetch")
    ahead.hold(80)
    assert other.may_hold(20)
    assert not other.may_hold(21)
    budget.is_settled = True
    assert other.may_hold(320)


def test_what_was_needed_once_is_kept_free():
    budget = Budget(100)
    batch = budget.account("batch")
    batch.hold(60, need=60)
    batch.hold(0)
    assert (budget.in_use, budget.promised) == (0, 60)
    batch.close()
    assert budget.promised == 0


def test_needs_over_the_limit_are_an_error_that_names_the_largest():
    budget = Budget(64_000_000)
    budget.account("map, added at a.py:2").hold(0, need=1_000_000)
    budget.account("batch, added at a.py:4").hold(0, need=4_000_000)
    shuffle = budget.account("shuffle, added at a.py:3", "its buffer", "Use a smaller one.")
    with pytest.raises(OverMemoryLimit) as told:
        shuffle.hold(0, need=62_000_000)
    assert str(told.value) == (
        "shuffle, added at a.py:3: its buffer needs 62.0 MB, all steps together 67.0 MB, and memory_limit is "
        "64.0 MB: 3.0 MB too much.\n"
        "  Beside it: 4.0 MB for batch, added at a.py:4; 1.0 MB for map, added at a.py:2.\n"
        "  Use a smaller one."
    )
    with pytest.raises(OverMemoryLimit, match=r"needs 65\.0 MB, and memory_limit is 64\.0 MB: 1\.0 MB too"):
        shuffle.hold(0, need=65_000_000)


def test_the_error_tells_how_many_streams_need_it():
    budget = Budget(100)
    accounts = [budget.account("map") for _ in range(3)]
    for account in accounts[:2]:
        account.hold(40, need=40)
    with pytest.raises(OverMemoryLimit, match=r"map: an element \(3 at a time\) needs 120 B"):
        accounts[2].hold(40, need=40)


def test_a_need_that_does_not_fit_is_an_error_each_time():
    account = Budget(10).account("map")
    for _ in range(2):
        with pytest.raises(OverMemoryLimit):
            account.hold(11, need=11)


def test_a_part_of_a_budget_counts_in_the_whole():
    whole = Budget(100)
    part = Budget(1000, whole)
    account = part.account("map")
    account.hold(60, need=60)
    assert whole.in_use == part.in_use == 60
    assert not account.may_hold(41)
    with pytest.raises(OverMemoryLimit, match="memory_limit is 100 B"):
        account.hold(101, need=101)


def test_in_another_process_the_limit_holds_and_nobody_works_ahead():
    budget = pickle.loads(pickle.dumps(Budget(100, Budget(50))))
    account = budget.account("map")
    assert budget.limit == 50
    assert not account.may_hold(1)
    with pytest.raises(OverMemoryLimit):
        account.hold(51, need=51)
    assert pickle.loads(pickle.dumps(Budget())).account("map").may_hold(10**15)


def test_threads_may_count_at_the_same_time():
    budget = Budget(10**9)

    def count():
        account = budget.account("map")
        for size in range(2000):
            account.hold(size, need=size)
        account.close()

    threads = [threading.Thread(target=count) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(60)
    assert (budget.in_use, budget.needed, budget.promised, budget.needs) == (0, 0, 0, {})
