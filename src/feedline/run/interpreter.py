"""A fresh interpreter that this process starts, talks to, and that ends with it: a worker, say.

What it writes to stderr is kept, for the error that tells of its death.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping

from feedline.errors import WorkerDied
from feedline.run.channel import Be, Channel, not_standard

# Not `-m`: the modules must be looked for where `place` says before the first is imported.
_START = """
import sys
sys.path[:] = sys.argv[3:]
from {module} import main
main(*map(int, sys.argv[1:3]))
"""
_GRACE = 1.0  # seconds, for it to end after its channel has
_MOST_WORDS = 2000  # characters of what it had written


def place() -> Be:
    """Where this process is, and looks for modules."""
    try:
        directory = os.getcwd()
    except FileNotFoundError:  # it was removed
        directory = os.sep
    return Be(directory, tuple(path or directory for path in sys.path))


class Interpreter:
    """Runs the `main` of a module, with the descriptors of its channel and of its last words."""

    def __init__(self, module: str, at: Be, environment: Mapping[str, str]) -> None:
        self.channel, there = Channel.pair()
        self._words = not_standard(os.memfd_create("feedline", os.MFD_CLOEXEC))
        passed = there.fileno(), self._words
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _START.format(module=module), *map(str, passed), *at.paths],
                stdin=subprocess.DEVNULL,
                pass_fds=passed,
                process_group=0,  # Ctrl-C is for this process
                env=environment,
                cwd=at.directory if os.path.isdir(at.directory) else os.sep,
            )
        except BaseException:
            self.channel.close()
            os.close(self._words)
            raise
        finally:
            there.close()

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    @property
    def pid(self) -> int:
        return self._process.pid

    def last_words(self, what: str, who: str = "the worker") -> WorkerDied:
        """The error for what it was doing when it went away."""
        code = self._exit_code()
        how = f"exit code {code}" if code >= 0 else _signal_name(-code)
        words = os.pread(self._words, 1 << 20, 0).decode(errors="replace")[-_MOST_WORDS:].strip()
        said = f"  The last it wrote to stderr:\n{words}" if words else "  It wrote nothing to stderr."
        hint = "  Perhaps it took more memory than there is.\n" if code == -signal.SIGKILL else ""
        return WorkerDied(f"{what}: {who} (process {self.pid}) went away with {how}.\n{hint}{said}")

    def _exit_code(self) -> int:
        try:
            return self._process.wait(timeout=_GRACE)
        except subprocess.TimeoutExpired:  # it has closed the channel, and lives
            self._process.kill()
            return self._process.wait()

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()
        self.channel.close()
        os.close(self._words)


def _signal_name(number: int) -> str:
    try:
        return f"signal {signal.Signals(number).name}"
    except ValueError:  # one for real time
        return f"signal {number}"
