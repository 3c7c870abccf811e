"""What test_skips.py runs; `make test` does not collect it."""

import pytest


@pytest.mark.skipif(True, reason="redis-server is not installed:  apt-get install redis-server")
@pytest.mark.parametrize("number", range(3))
def test_with_redis(number):
    pass


def test_with_another_file_system():
    pytest.skip("no second file system here")


def test_with_nothing():
    pass
