"""A quota of the container counts as well as the cores."""

import os

import pytest

from feedline.run import cores


@pytest.mark.parametrize(
    ("files", "wanted"),
    [
        ({"cpu.max": "150000 100000\n"}, 1.5),
        ({"cpu.max": "max 100000\n"}, None),
        ({"cpu/cpu.cfs_quota_us": "50000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 0.5),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, None),
        ({"cpu.max": "nonsense"}, None),
        ({}, None),
    ],
)
def test_quotas_of_both_versions_are_read(files, wanted, tmp_path):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert cores._quota(tmp_path) == wanted


@pytest.mark.parametrize(("quota", "wanted"), [("50000", 1), ("110000", 2), ("9900000", 99)])
def test_cores_are_bounded_by_the_quota(quota, wanted, tmp_path, monkeypatch):
    (tmp_path / "cpu.max").write_text(f"{quota} 100000")
    monkeypatch.setattr(cores, "_CGROUP", tmp_path)
    assert cores.usable_cores() == min(wanted, len(os.sched_getaffinity(0)))
