"""shard."""

import pytest

from feedline import Dataset, UsageError
from feedline.testing import check_errors, check_laws
from tests.ops.sources import every_source
from tests.tfdata import both, both_refuse

SHARDS = [(1, 0), (3, 0), (3, 2), (10, 9), (40, 0), (40, 39)]


@pytest.mark.parametrize(("num_shards", "index"), SHARDS)
def test_shard_gives_what_tf_data_gives(num_shards, index):
    both(lambda D: D.range(10).shard(num_shards, index))
    both(lambda D: D.range(30).filter(lambda x: x % 3 == 0).shard(num_shards, index))
    both(lambda D: D.range(0).shard(num_shards, index))
    both(lambda D: D.range(3).repeat().shard(num_shards, index), most=20)
    both(lambda D: D.range(30).shard(num_shards, index).shard(2, 1))


@pytest.mark.parametrize("rows", [0, 1, 7, 30])
def test_the_shards_together_are_the_whole(rows):
    parts = [list(Dataset.range(rows).shard(4, index)) for index in range(4)]
    assert sorted(x for part in parts for x in part) == list(range(rows))


@every_source
def test_shard_obeys_the_laws(source):
    check_laws(lambda ds: ds.shard(2, 1), source)


@pytest.mark.parametrize(("num_shards", "index"), SHARDS)
def test_shard_obeys_the_laws_for_every_shard(num_shards, index):
    check_laws(lambda ds: ds.shard(num_shards, index), Dataset.range(9))
    check_laws(lambda ds: ds.shard(num_shards, index), Dataset.range(9).filter(lambda x: x != 5))


def test_errors_come_in_their_place():
    check_errors(lambda ds: ds.shard(3, 1), Dataset.range(12))
    check_errors(lambda ds: ds.shard(3, 1), Dataset.range(12).filter(lambda x: True))


@pytest.mark.parametrize(("num_shards", "index"), [(0, 0), (3, 3), (3, -1)])
def test_shard_refuses_what_tf_data_refuses(num_shards, index):
    both_refuse(lambda D: D.range(10).shard(num_shards, index))


@pytest.mark.parametrize(
    ("num_shards", "index", "text"),
    [
        (0, 0, "shard(num_shards=0): there must be 1 shard at least."),
        (-1, 0, "shard(num_shards=-1): there must be 1 shard at least."),
        (3, 3, "shard(num_shards=3, index=3): index must be 0 to 2."),
        (3, -1, "shard(index=-1): index must be 0 or more."),
        (2.0, 1, "shard(num_shards=2.0): num_shards must be an int, not float."),
        (2, "1", "shard(index='1'): index must be an int, not str."),
    ],
)
def test_shard_says_what_is_wrong(num_shards, index, text):
    with pytest.raises(UsageError) as caught:
        Dataset.range(3).shard(num_shards, index)
    assert str(caught.value) == text
