"""What test_explore.py explores; `make test` does not collect it."""

from hypothesis import given, settings
from hypothesis import strategies as st


@given(st.lists(st.integers(0, 10**6), max_size=5))
@settings(max_examples=1000)
def test_sums_are_small(numbers):
    assert sum(numbers) < 1000


@given(st.integers())
def test_draws(number):
    print(f"drew {number}")
