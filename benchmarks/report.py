"""From samples to tables: rates, and ratios taken round by round.

No date and no paths: a result changes in the repository only when what was measured changed.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from types import ModuleType

PACKAGES = (
    "feedline",
    "numpy",
    "tensorflow-cpu",
    "tensorflow",
    "grain",
    "torch",
    "keras",
    "protobuf",
    "tfrecord",
    "google-crc32c",
)


@dataclass(frozen=True)
class Sample:
    """What one process measured."""

    records: int
    bytes: int
    passes: list[float]
    cpu: float

    @property
    def rate(self) -> float:
        """Records per second: that of the median pass."""
        return self.records / median(self.passes)

    @property
    def cores(self) -> float:
        """Cores kept busy: CPU time over wall time."""
        return self.cpu / sum(self.passes)


@dataclass
class Trial:
    """One setting of a row: its samples, one per round it stayed in."""

    settings: dict[str, object]
    samples: list[Sample] = field(default_factory=list)

    @property
    def peak(self) -> float:
        return max(sample.rate for sample in self.samples)

    @property
    def rate(self) -> float:
        return median(sample.rate for sample in self.samples)


Findings = dict[str, dict[str, dict[str, Trial]]]  # workload -> row -> label of the setting -> trial


def best(trials: dict[str, Trial]) -> tuple[str, Trial]:
    """The setting that stands for a row: the best median among those that stayed to the end."""
    rounds = max(len(trial.samples) for trial in trials.values())
    stayed = {label: trial for label, trial in trials.items() if len(trial.samples) == rounds}
    return max(stayed.items(), key=lambda item: item[1].rate)


def ratio(trial: Trial, base: Trial) -> tuple[float, float, float]:
    """Median, smallest and largest of the ratios of the rates, round by round."""
    ratios = [ours.rate / theirs.rate for ours, theirs in zip(trial.samples, base.samples, strict=True)]
    return median(ratios), min(ratios), max(ratios)


def markdown(question: ModuleType, findings: Findings) -> str:
    """The page of results for one question."""
    name = question.__name__.rpartition(".")[2]
    asked = (question.__doc__ or "").strip().splitlines()[0]
    notes = getattr(question, "notes", lambda findings: [])(findings)
    lines = [f"# {name}", "", asked, "", *_conditions(findings), *_tables(question, findings), "", *notes]
    return "\n".join(lines).rstrip() + "\n"


def keep(stem: Path, text: str, findings: Findings) -> None:
    """Write STEM.md for people and STEM.json for programs."""
    measured = {
        workload: {row: [_numbers(trial) for trial in trials.values()] for row, trials in rows.items()}
        for workload, rows in findings.items()
    }
    write(stem, text, {"workloads": measured})


def write(stem: Path, text: str, content: dict[str, object]) -> None:
    stem.parent.mkdir(exist_ok=True)
    stem.with_suffix(".md").write_text(text)
    content = {"machine": machine(), "versions": versions(), **content}
    stem.with_suffix(".json").write_text(json.dumps(content, indent=1) + "\n")


def machine() -> dict[str, object]:
    """Cores this process may use, and the processor's own name for itself."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    model = names[0] if names else platform.machine()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {"cores": cores, "cpu": model, "system": platform.system()}


def versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _numbers(trial: Trial) -> dict[str, object]:
    sample = trial.samples[0]
    return {
        "settings": trial.settings,
        "records_per_second": [round(sample.rate) for sample in trial.samples],
        "cores_busy": [round(sample.cores, 2) for sample in trial.samples],
        "bytes_per_record": round(sample.bytes / sample.records, 1),
    }


def _conditions(findings: Findings) -> Iterator[str]:
    about = machine()
    trials = [trial for rows in findings.values() for row in rows.values() for trial in row.values()]
    rounds = max(len(trial.samples) for trial in trials)
    yield f"{about['cores']} cores, {about['cpu']}, {about['system']}; warm page cache; rounds: {rounds}."
    yield "; ".join(f"{package} {number}" for package, number in versions().items()) + "."
    yield ""
    yield "Rates are medians over rounds. Ratios: median of those within each round (smallest .. largest)."
    yield ""


def _tables(question: ModuleType, findings: Findings) -> Iterator[str]:
    for workload, rows in findings.items():
        stands = {row: best(trials) for row, trials in rows.items()}
        bases = [base for base in question.BASES if base in stands]
        yield f"## {workload}"
        yield ""
        against = "".join(f" against {base} |" for base in bases)
        yield f"| rival | thousand records/s | GB/s | cores busy |{against}"
        yield "|---|---|---|---|" + "---|" * len(bases)
        for row, (_, trial) in sorted(stands.items(), key=lambda item: -item[1][1].rate):
            sample = trial.samples[0]
            speed = f"{trial.rate / 1e3:,.1f} | {trial.rate * sample.bytes / sample.records / 1e9:.2f}"
            cores = median(sample.cores for sample in trial.samples)
            ratios = "".join(f" {_ratio_text(trial, stands[base][1])} |" for base in bases)
            yield f"| {row} | {speed} | {cores:.1f} |{ratios}"
        yield ""
        for row, trials in rows.items():
            if len(trials) > 1:
                yield from _settings(row, trials, stands[row][0])


def _ratio_text(trial: Trial, base: Trial) -> str:
    if trial is base:
        return "1"
    middle, low, high = ratio(trial, base)
    return f"**{middle:.3g}** ({low:.3g} .. {high:.3g})"


def _settings(row: str, trials: dict[str, Trial], winner: str) -> Iterator[str]:
    yield f"{row} ran best with `{winner}`. All its settings, thousand records/s (rounds it stayed in):"
    yield ""
    for label, trial in sorted(trials.items(), key=lambda item: -item[1].rate):
        yield f"- {trial.rate / 1e3:,.1f} ({len(trial.samples)}): `{label}`"
    yield ""
