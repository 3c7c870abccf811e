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


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (["reshard", "{pets}", "{new}", "-n", "0"], "--shards 0: give a number between 1 and 1,000,000."),
        (["reshard", "{pets}", "{new}", "-n", "2", "--prefix", "a/b"], "--prefix a/b: a name of a file"),
        (["reshard", "{pets}", "{new}", "-n", "2", "--prefix", "a/b"], "Give DIRECTORY the path."),
        (["cache", "evict", "{new}", "10XB"], "MAX_BYTES 10XB: give a number of bytes"),
        (["cache", "ls", "{new}", "--blobs", "there"], "--blobs: only a cache in Redis"),
        (["convert", "{pets}", "{new}", "--format", "foo"], "--format foo: use one of csv"),
        (["convert", "{pets}", "{new}", "--compression", "foo"], "use GZIP or ZLIB"),
    ],
)
def test_errors_name_options_and_not_arguments_of_python(feedline, pets, tmp_path, command, told):
    ran = feedline(*(each.format(pets=pets, new=tmp_path / "new") for each in command))
    assert ran.code == 2
    assert told in ran.err


def test_a_path_that_looks_like_an_argument_stays_as_it_is(feedline, tmp_path):
    folder = tmp_path / "shards=3" / "prefix=a"
    folder.mkdir(parents=True)
    ran = feedline("reshard", folder, tmp_path / "new", "-n", "2")
    assert f"{folder}: the directory holds no files." in ran.err


@pytest.mark.parametrize("command", ["head", "count"])
def test_no_argument_is_advised_that_a_command_does_not_have(feedline, tmp_path, command):
    path = tmp_path / "a.tfrecord"
    path.write_bytes(b"\xee" * 100)
    ran = feedline(command, path)
    assert "feedline repair" in ran.err
    assert "on_corrupt" not in ran.err
    assert ran.code == 1


def test_a_file_of_another_format_is_named_with_what_to_do(feedline, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("name,age\nAda,36\n")
    for command in (["inspect", path], ["head", path], ["count", path], ["repair", path, tmp_path / "out"]):
        ran = feedline(*command)
        assert ran.err.startswith(
            f"feedline: {path}: this is comma-separated text (CSV), not a TFRecord file."
        )
        assert f"feedline convert --format csv {path} DIRECTORY" in ran.err
        assert ran.code == 1
    ran = feedline("verify", path)
    assert ran.out.startswith(f"{path}: this is comma-separated text (CSV), not a TFRecord file\n  To make ")
    assert ran.code == 1
    assert feedline("convert", "--format", "csv", path, tmp_path / "new").code == 0
