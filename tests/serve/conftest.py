"""One service for the tests of a file that only read from it, and services of their own for the others."""

import pytest

from tests.serve.serving import serving


@pytest.fixture(scope="module")
def shared():
    with serving() as service:
        yield service


@pytest.fixture
def service():
    with serving() as service:
        yield service
