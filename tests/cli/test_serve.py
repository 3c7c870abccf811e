"""feedline serve."""

from __future__ import annotations

import pytest

from feedline import Dataset
from tests.serve.serving import serving


def test_status_as_a_table(feedline):
    with serving() as service:
        rows = iter(Dataset.range(100_000).map(lambda x: x).distribute(service.address))
        next(rows)
        ran = feedline("serve", "--socket", service.path, "--status")
        assert ran.code == 0
        assert f"{service.path}: process {service.process.pid}" in ran.out
        rows.close()


def test_status_as_json(feedline):
    with serving("--workers", "3", "--memory-limit", "1GB", "--max-open-files", "50") as service:
        ran = feedline("serve", "--socket", service.path, "--status", "--json")
        assert ran.code == 0
        (told,) = ran.lines()
        assert told["pid"] == service.process.pid
        assert told["limits"] == {"workers": 3, "memory_limit": 10**9, "max_open_files": 50}
        assert told["hosts"] == []


def test_status_without_a_service_says_how_to_start_one(feedline, tmp_path):
    ran = feedline("serve", "--socket", tmp_path / "s", "--status")
    assert ran.code == 1
    assert "there is no reader service" in ran.err
    assert f"feedline serve --socket {tmp_path}/s" in ran.err


def test_a_second_service_is_an_error(feedline):
    with serving() as service:
        ran = feedline("serve", "--socket", service.path)
        assert ran.code == 1
        assert "listens there already" in ran.err


@pytest.mark.parametrize(
    ("option", "value"), [("--workers", "-1"), ("--max-open-files", "0"), ("--memory-limit", "much")]
)
def test_an_option_that_cannot_be_meant_is_refused(feedline, tmp_path, option, value):
    ran = feedline("serve", "--socket", tmp_path / "s", option, value)
    assert ran.code == 2
    assert option in ran.err
