"""A fresh interpreter for what needs an environment of its own."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def start(*arguments, **environment):
    """Python with these arguments, in the project's directory."""
    return subprocess.Popen(
        [sys.executable, *map(str, arguments)],
        cwd=ROOT,
        env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "2", "PYTHONPATH": str(ROOT)} | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def output(process):
    """What it printed, once it has ended without an error."""
    try:
        out, err = process.communicate(timeout=800)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
    assert process.returncode == 0, out + err
    return out


def run(*arguments, **environment):
    return output(start(*arguments, **environment))
