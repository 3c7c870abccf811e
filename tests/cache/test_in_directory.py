"""Entries in a directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from feedline.cache.in_directory import DirectoryStore
from tests.cache.conformance import StoreSuite


class TestDirectoryStore(StoreSuite):
    frees_at_once = True

    @pytest.fixture
    def location(self, tmp_path: Path) -> str:
        return str(tmp_path / "cache")

    @staticmethod
    def make_store(location: str) -> DirectoryStore:
        return DirectoryStore(location)
