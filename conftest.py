"""Examples in docstrings are run in a directory of their own: some write files."""

import pytest

import feedline


@pytest.fixture(autouse=True)
def _place_of_examples(request, doctest_namespace):
    if isinstance(request.node, pytest.DoctestItem):
        request.getfixturevalue("monkeypatch").chdir(request.getfixturevalue("tmp_path"))
        doctest_namespace["feedline"] = feedline
