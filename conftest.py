"""Examples in docstrings are run in a directory of their own: some write files.

Tests are interrupted as by Ctrl-C, and so are programs that they start: also where they run in the background
of a script, whose shell has SIGINT ignored.
"""

import signal

import pytest

import feedline

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser):
    parser.addoption(
        "--explore",
        metavar="SEED",
        type=int,
        help="draw new cases from SEED in hypothesis tests, and keep those that fail (make explore)",
    )


@pytest.fixture(autouse=True)
def _place_of_examples(request, doctest_namespace):
    if isinstance(request.node, pytest.DoctestItem):
        request.getfixturevalue("monkeypatch").chdir(request.getfixturevalue("tmp_path"))
        doctest_namespace["feedline"] = feedline
