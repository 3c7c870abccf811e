"""make explore: run the hypothesis tests with new seeds until the time is up, and keep the cases that fail.

usage: python -m tests.explore SECONDS [PYTEST ARGUMENTS]

Every round has a new seed, which it prints. A case that fails is added to tests/kept_cases.txt, which every
`make test` replays, and the round is the last one.
"""

from __future__ import annotations

import secrets
import subprocess
import sys
import time

from tests.kept_cases import KEPT_CASES, KeptCases


def main(seconds: float, arguments: list[str]) -> int:
    until = time.monotonic() + seconds
    kept_before = KeptCases().lines()
    rounds = 0
    while (left := until - time.monotonic()) > 0:
        rounds += 1
        seed = secrets.randbits(32)
        print(f"round {rounds}: seed {seed}, {left:.0f} s left", flush=True)
        passed, output = run_round(seed, left, arguments)
        found = sorted(line.partition(" ")[2] for line in KeptCases().lines() - kept_before)
        if found or not passed:
            print(output)
            for test in found:
                print(f"Found and added to {KEPT_CASES.name}; to repeat it:  {command(test)}")
            if not found:
                print(f"No case was kept. To repeat the round:  {command(*options(seed))}")
            return 1
    print(f"Rounds: {rounds}. Nothing was found.")
    return 0


def options(seed: int) -> list[str]:
    return ["-m", "hypothesis", f"--explore={seed}"]


def command(*arguments: str) -> str:
    quoted = (f"'{argument}'" if "[" in argument or " " in argument else argument for argument in arguments)
    return f'make test ARGS="{" ".join(quoted)}"'


def run_round(seed: int, seconds: float, arguments: list[str]) -> tuple[bool, str]:
    """Whether pytest passed, and its output. It is stopped when the time is up, and that counts as passed."""
    pytest = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "auto", "--maxprocesses=4"]
    with subprocess.Popen(
        [sys.executable, *pytest, *options(seed), *(arguments or ["tests"])],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            output, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.terminate()
            return True, "The time was up before pytest could report."
    return process.returncode == 0, output


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), sys.argv[2:]))
