"""Ask a benchmark question: every rival alone in its process, rounds interleaved, ratios with spread.

    python -m benchmarks.harness QUESTION [--rounds N] [--workload W ...] [--rival R ...] [--quick]

QUESTION is a folder here, `memory`, or `all`. A whole run writes results/QUESTION.md and .json; one
that was narrowed down (--workload, --rival, --quick), or that lacks a rival, only prints.

A round runs every rival once on every workload, in an order that rotates, so that a slow minute of
the machine falls on all of them. Ratios are taken within a round, then summed up as median and spread.
Where a rival lists several settings, those far behind are dropped after each round, and the setting
with the best median of those that stayed stands for the rival.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from types import ModuleType

from benchmarks import memory, report, workloads
from benchmarks.report import Findings, Sample, Trial

HERE = Path(__file__).resolve().parent
# A setting whose best round is under this part of the row's best is dropped after the first, second, third
# round and so on: gently at first, because one slow minute of the machine is no verdict.
STAY = (0.6, 0.75, 0.85)
TIMEOUT = 900


@dataclass(frozen=True)
class Contender:
    """One setting of one row of a rival's file. Settings of the same row compete for it."""

    question: str
    rival: str
    row: str
    settings: dict[str, object]
    files: int

    @property
    def label(self) -> str:
        return ", ".join(f"{key}={value}" for key, value in self.settings.items())

    def run(self, workload: str, seconds: float) -> Sample:
        """Start a process that checks and times this contender, and wait for it."""
        settings = json.dumps(self.settings)
        out = _child(self.question, self.rival, workload, str(self.files), str(seconds), settings)
        return Sample(**json.loads(out))


def contenders(name: str, question: ModuleType, only: Sequence[str]) -> tuple[list[Contender], list[str]]:
    """Everyone in the question's folder, and those left out because a package of theirs is missing."""
    found = []
    left_out = []
    for path in sorted((HERE / name).glob("[!_]*.py")):
        described = json.loads(_child(name, path.stem))
        if "missing" in described:
            left_out.append(f"{path.stem}: {described['missing']}")
            continue
        files = min(question.FILES, described["files"] or question.FILES)
        found += [
            Contender(name, path.stem, row, settings, files)
            for row, choices in described["rows"].items()
            for settings in choices
            if not only or path.stem in only or row in only
        ]
    if not found:
        raise SystemExit(f"{name}: no rival {' or '.join(only)} here. Left out: {left_out}")
    return found, left_out


def ask(entered: list[Contender], names: Sequence[str], rounds: int, seconds: float) -> Findings:
    """Run all rounds. The findings of a workload are its rows; those of a row, the trials of its settings."""
    findings: Findings = {name: {} for name in names}
    staying = {name: list(entered) for name in names}
    for number in range(rounds):
        for name in names:
            turn = number * len(staying[name]) // rounds
            for contender in staying[name][turn:] + staying[name][:turn]:
                sample = contender.run(name, seconds)
                trials = findings[name].setdefault(contender.row, {})
                trials.setdefault(contender.label, Trial(contender.settings)).samples.append(sample)
                rate = f"{name:6} {contender.row:20} {sample.rate / 1e3:9,.1f} k/s"
                print(f"round {number + 1}/{rounds}  {rate}  {contender.label}", file=sys.stderr)
            part = STAY[min(number, len(STAY) - 1)]
            staying[name] = [c for c in staying[name] if _in_reach(findings[name][c.row], c.label, part)]
    return findings


def _in_reach(trials: dict[str, Trial], label: str, part: float) -> bool:
    return trials[label].peak >= part * max(trial.peak for trial in trials.values())


def _child(*arguments: str) -> str:
    """The last line that a child prints. A child that fails ends the run: a missing row misleads."""
    environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
    # Installed packages have their bytecode. So that a checkout has it too, the checked pass may write it.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.child", *arguments],
        cwd=HERE.parent,
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )
    if done.returncode:
        what = f"benchmarks.child {' '.join(arguments)}"
        raise SystemExit(f"{what} ended with {done.returncode}:\n{done.stderr[-4000:]}")
    return done.stdout.splitlines()[-1]


def main() -> None:
    folders = sorted(path.parent.name for path in HERE.glob("*/__init__.py"))
    parser = argparse.ArgumentParser("python -m benchmarks.harness", description=__doc__.splitlines()[0])
    parser.add_argument("question", choices=[*folders, "memory", "all"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workload", nargs="+", default=(), help="as the tables name them")
    parser.add_argument("--rival", nargs="+", default=(), help="files or rows, as the table names them")
    parser.add_argument("--quick", action="store_true", help="does it run? one round, two files")
    options = parser.parse_args()

    for name in [*folders, "memory"] if options.question == "all" else [options.question]:
        if name == "memory":
            memory.main(quick=options.quick)
            continue
        question = import_module(f"benchmarks.{name}")
        entered, left_out = contenders(name, question, options.rival)
        rounds, seconds = options.rounds, 1.0
        if options.quick:
            first = {contender.row: contender for contender in reversed(entered)}
            entered = [replace(c, files=min(c.files, 2)) for c in entered if c is first[c.row]]
            rounds, seconds = 1, 0.0
        names = [w for w in question.WORKLOADS if not options.workload or w in options.workload]
        if not hasattr(question, "load"):  # it makes what it needs itself
            for workload in names:
                workloads.load(workload)  # made before the first child needs it
        findings = ask(entered, names, rounds, seconds)
        text = report.markdown(question, findings)
        print(text, *(f"Left out: {reason}" for reason in left_out), sep="\n")
        if not (options.workload or options.rival or options.quick or left_out):
            report.keep(HERE / "results" / name, text, findings)


if __name__ == "__main__":
    main()
