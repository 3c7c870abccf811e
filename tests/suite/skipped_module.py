"""Skipped as a whole where test_skips.py runs it; `make test` looks for doctests here, and finds none."""

import os

import pytest

pytest.importorskip(os.environ.get("FEEDLINE_MODULE_TO_MISS", "pytest"))
