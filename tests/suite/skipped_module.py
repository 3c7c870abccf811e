"""Skipped as a whole; test_skips.py runs it, `make test` does not collect it."""

import pytest

pytest.importorskip("torch_that_does_not_exist")
