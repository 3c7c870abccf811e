"""Segments that several processes borrow."""

from __future__ import annotations

import os

import pytest

from feedline.run.memory import Borrower, Lender, Supply


def lent_to(count, supply):
    """A segment that so many others hold, and their lenders."""
    segment = supply.take(1000)
    lenders = [Lender(supply) for _ in range(count)]
    assert [lender.share(segment) for lender in lenders] == [True] * count
    supply.release(segment)
    return segment, lenders


def test_a_segment_is_used_again_when_its_last_borrower_has_returned_it():
    supply = Supply()
    segment, (one, other) = lent_to(2, supply)
    one.take_back([segment.number])
    assert supply.take(1000) is not segment
    other.take_back([segment.number])
    assert supply.take(1000) is segment


def test_a_borrower_that_knows_a_segment_is_not_told_of_it_again():
    supply = Supply()
    segment, (one,) = lent_to(1, supply)
    one.take_back([segment.number])
    assert supply.take(1000) is segment
    assert not one.share(segment)


def test_what_a_lost_borrower_had_is_not_used_again():
    supply = Supply()
    segment, (one, other) = lent_to(2, supply)
    one.close()  # it may still have arrays
    other.take_back([segment.number])
    assert supply.take(1000) is not segment
    assert segment.fd is None
    assert other.closed() == [segment.number]


def test_what_was_not_lent_cannot_be_returned():
    lender = Lender(Supply())
    with pytest.raises(KeyError):
        lender.take_back([3])


def test_those_that_know_a_segment_are_told_when_it_is_given_up():
    supply = Supply(most_idle=0)
    segment, (one, other) = lent_to(2, supply)
    stranger = Lender(supply)
    one.take_back([segment.number])
    other.take_back([segment.number])
    assert [lender.closed() for lender in (one, other, stranger)] == [[segment.number], [segment.number], []]
    assert segment.fd is None


def test_what_others_may_have_borrowed_is_read_only():
    segment = Supply().take(1000)
    segment.memory[:3] = [1, 2, 3]
    borrower = Borrower(read_only=True)
    borrower.learn(1, os.dup(segment.fd), segment.size)
    loan = borrower.borrow(1, 3)
    assert loan.tolist() == [1, 2, 3]
    with pytest.raises(ValueError, match="read-only"):
        loan[0] = 5
    assert borrower.loans == 1
    del loan
    assert borrower.returned() == [1]
    assert borrower.loans == 0
