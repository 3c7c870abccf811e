"""What holds for every command: where output goes, exit codes, and quiet ends."""

import os
import subprocess
import sys

import pytest

from feedline import records
from feedline.cli import terminal


@pytest.mark.parametrize("command", ["inspect", "head", "count", "verify"])
def test_a_missing_file_is_a_message_and_exit_2(feedline, command, tmp_path):
    ran = feedline(command, tmp_path / "missing.tfrecord")
    assert "missing.tfrecord" in ran.err
    assert "Traceback" not in ran.err
    assert ran.out == ""
    assert ran.code == 2


@pytest.mark.parametrize(
    "args", [["no-such-command"], ["count"], ["head", "--count=-1", "x"], ["repair", "one"]]
)
def test_a_command_that_cannot_be_meant_exits_2(feedline, args):
    assert feedline(*args).code == 2


@pytest.mark.parametrize("command", ["head", "count"])
def test_a_file_that_is_no_tfrecord_file_is_a_message_and_exit_1(feedline, command, tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("This is a text, and it is longer than any header of a record.\n" * 10)
    ran = feedline(command, path)
    assert "notes.txt: " in ran.err
    assert "Traceback" not in ran.err
    assert ran.code == 1


def test_a_reader_that_leaves_early_ends_the_command_quietly(write):
    path = write("a.tfrecord", [{"x": list(range(1000))}] * 1000)
    command = [sys.executable, "-m", "feedline.cli", "head", "--json", "-n", "1000", path]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


def test_ctrl_c_ends_the_command_quietly_with_130(feedline, pets, monkeypatch):
    def interrupted(*args, **settings):
        raise KeyboardInterrupt

    monkeypatch.setattr(records, "verify", interrupted)
    ran = feedline("verify", pets)
    assert (ran.out, ran.err, ran.code) == ("", "", 130)


def test_no_progress_bar_is_drawn_where_nobody_sees_it(pets, monkeypatch):
    monkeypatch.setattr(terminal, "SHOW_PROGRESS_FROM", 0)
    with terminal.progress("reading", [pets]) as report_for:
        assert report_for(pets) is None


def test_a_progress_bar_runs_over_all_large_files(pets, damaged, monkeypatch, capsys):
    monkeypatch.setattr(terminal, "SHOW_PROGRESS_FROM", 0)
    monkeypatch.setenv("FORCE_COLOR", "1")
    with terminal.progress("reading", [pets, damaged]) as report_for:
        for path in (pets, damaged):
            report_for(path)(os.path.getsize(path))
    shown = capsys.readouterr()
    assert "reading" in shown.err
    assert shown.out == ""
