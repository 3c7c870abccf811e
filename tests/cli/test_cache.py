"""feedline cache ls | show | verify | rm | evict"""

import os
import subprocess
import sys
import time

import pytest

from feedline import Cache, Dataset
from feedline.cache import plan as documents
from feedline.cache.in_directory import DirectoryStore
from feedline.cache.plan import Plan
from feedline.cache.store import opened
from tests.cache.places import put_entry, run_indexed, run_streamed, user_of

KEY, OTHER = "0123abcd" * 4, "fedc" * 8


@pytest.fixture
def location(tmp_path):
    return tmp_path / "cache"


@pytest.fixture
def two(location):
    """The entries of two runs, the newer one first."""
    run_indexed(location)
    time.sleep(0.02)
    run_streamed(location)
    return Cache(location).entries()


def damage(location, entry):
    path = location / entry.key / "items" / "part-00000000"
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)


def test_ls_shows_a_row_for_each_entry(feedline, location, two):
    ran = feedline("cache", "ls", location)
    newer, older = (next(line for line in ran.out.splitlines() if entry.key[:8] in line) for entry in two)
    assert ran.out.index(two[0].key[:8]) < ran.out.index(two[1].key[:8])
    assert "1,000" in newer
    assert "all 1 " in older
    assert f"{location}: 2 entries, " in ran.err
    assert ran.code == 0


def test_ls_as_json_gives_an_object_for_each_entry(feedline, location, two):
    with user_of(location, two[1].key) as process:
        lines = feedline("cache", "ls", "--json", location).lines()
    assert [line["key"] for line in lines] == [two[1].key, two[0].key]
    assert lines[0]["elements"] == 1000
    assert lines[0]["complete"] is True
    assert lines[0]["bytes"] == two[1].bytes
    assert str(process.pid) in lines[0]["users"][0]
    assert lines[1]["users"] == []


def test_ls_shows_who_uses_an_entry_and_what_is_wrong_with_it(feedline, location):
    put_entry(location, KEY, 2_500_000)
    with user_of(location, KEY) as process:
        ran = feedline("cache", "ls", location)
    [row] = [line for line in ran.out.splitlines() if "0123abcd" in line]
    assert "2.5 MB" in row
    assert "1 of ?" in row
    assert f"process {process.pid} (-c) on {os.uname().nodename} " in row
    assert "it has no plan" in row


def test_ls_shows_as_many_digits_as_tell_keys_apart(feedline, location):
    put_entry(location, "0123456789a" + "0" * 21, 10)
    put_entry(location, "0123456789b" + "0" * 21, 10)
    out = feedline("cache", "ls", location).out
    assert "0123456789a " in out
    assert "0123456789b " in out


def test_ls_of_nothing_says_so(feedline, location):
    os.makedirs(location)
    ran = feedline("cache", "ls", location)
    assert (ran.out, ran.err, ran.code) == ("", f"{location}: 0 entries, 0 bytes.\n", 0)


def test_ls_of_a_file_is_a_message_and_exit_1(feedline, pets):
    ran = feedline("cache", "ls", pets)
    assert pets in ran.err
    assert "Traceback" not in ran.err
    assert ran.code == 1


def test_show_tells_all_of_an_entry(feedline, location, two):
    ran = feedline("cache", "show", location, two[0].key[:6])
    assert ran.out.startswith(f"entry {two[0].key}\n")
    assert "elements   1,000\n" in ran.out
    assert "parts      all 1\n" in ran.out
    assert "in use by  nobody\n" in ran.out
    assert ran.code == 0


def test_show_tells_the_parts_of_the_fingerprint(feedline, location):
    pipeline = {"range": "Range", "range: stop": "5", "batch": "Batch", "feedline's steps": "1"}
    put_entry(location, KEY, 10)
    plan = documents.encode(Plan(key=KEY, length=None, seeds=(), pipeline=pipeline))
    (location / KEY / "items" / "plan").write_bytes(plan)
    with user_of(location, KEY) as process:
        ran = feedline("cache", "show", location, KEY)
        [line] = feedline("cache", "show", "--json", location, KEY).lines()
    assert "pipeline   range -> batch\n" in ran.out
    assert "fingerprint of\n  range: Range\n    stop: 5\n  batch: Batch\n" in ran.out
    assert f"in use by  process {process.pid} " in ran.out
    assert line["pipeline"] == pipeline
    assert line["steps"] == "range -> batch"


def test_show_of_an_entry_that_cannot_be_read_tells_no_dates(feedline, location):
    put_entry(location, KEY, 10)
    (location / KEY / "items" / "part-00000000").unlink()
    (location / KEY / "items").rmdir()
    (location / KEY / "items").touch()
    ran = feedline("cache", "show", location, KEY)
    assert "trouble    " in ran.out
    assert "1970" not in ran.out
    assert "  made " not in ran.out
    assert "last used" not in ran.out
    assert ran.code == 0


def test_verify_of_sound_entries_prints_only_a_summary(feedline, location, two):
    ran = feedline("cache", "verify", location)
    assert ran.out == ""
    assert ran.err.startswith(f"{location}: 2 entries, ")
    assert ran.err.endswith(": no findings.\n")
    assert ran.code == 0


def test_verify_prints_a_line_for_each_finding_and_exits_1(feedline, location, two):
    damage(location, two[1])
    ran = feedline("cache", "verify", location)
    assert ran.out.startswith(f"{two[1].key}: part-00000000: ")
    assert "checksum" in ran.out
    assert "1 finding." in ran.err
    assert ran.code == 1
    [line] = feedline("cache", "verify", "--json", location).lines()
    assert (line["key"], line["item"]) == (two[1].key, "part-00000000")


def test_verify_of_one_entry_looks_at_no_other(feedline, location, two):
    damage(location, two[1])
    assert feedline("cache", "verify", location, two[0].key).code == 0
    assert feedline("cache", "verify", location, two[1].key[:8]).code == 1


def test_rm_removes_entries_and_prints_their_keys(feedline, location, two):
    ran = feedline("cache", "rm", location, two[0].key[:8], two[1].key, two[0].key)
    assert ran.out.splitlines() == [two[0].key, two[1].key]
    assert "2 entries removed, " in ran.err
    assert ran.code == 0
    assert Cache(location).entries() == []


def test_rm_of_an_entry_in_use_says_by_whom_and_exits_1(feedline, location, two):
    with user_of(location, two[0].key) as process:
        ran = feedline("cache", "rm", "--json", location, two[0].key, two[1].key)
    assert f"entry {two[0].key} is in use by process {process.pid} " in ran.err
    assert [line["key"] for line in ran.lines()] == [two[1].key]
    assert ran.code == 1
    assert [entry.key for entry in Cache(location).entries()] == [two[0].key]


def test_rm_of_a_key_that_there_is_not_removes_nothing_and_exits_2(feedline, location, two):
    ran = feedline("cache", "rm", location, two[0].key, OTHER)
    assert f"there is no entry {OTHER}" in ran.err
    assert (ran.out, ran.code) == ("", 2)
    assert len(Cache(location).entries()) == 2


def test_evict_removes_what_was_not_used_for_the_longest_time(feedline, location, two):
    assert feedline("cache", "evict", location, "1GB").out == ""
    ran = feedline("cache", "evict", location, "15 kB")
    assert ran.out.splitlines() == [two[1].key]
    assert ran.code == 0
    [line] = feedline("cache", "evict", "--json", location, "0").lines()
    assert line["key"] == two[0].key


def test_evict_that_cannot_reach_its_aim_says_who_is_in_the_way_and_exits_1(feedline, location, two):
    with user_of(location, two[1].key) as process:
        ran = feedline("cache", "evict", location, "100")
    assert ran.out.splitlines() == [two[0].key]
    assert f"entry {two[1].key}, 8." in ran.err
    assert f"in use by process {process.pid} " in ran.err
    assert "stay, more than 100." in ran.err
    assert ran.code == 1


@pytest.mark.parametrize(
    "args",
    [
        ["ls"],
        ["show", "{location}"],
        ["show", "{location}", "zz"],
        ["rm", "{location}"],
        ["evict", "{location}"],
        ["evict", "{location}", "much"],
        ["no-such-command", "{location}"],
        [],
    ],
)
def test_a_command_that_cannot_be_meant_exits_2(feedline, location, args):
    assert feedline("cache", *(arg.format(location=location) for arg in args)).code == 2


def test_an_entry_is_in_use_while_a_run_goes_through_it(feedline, location):
    dataset = Dataset.range(1000).cache(location)
    with iter(dataset) as rows:
        next(rows)
        [entry] = Cache(location).entries()
        command = [sys.executable, "-m", "feedline.cli", "cache", "rm", str(location), entry.key]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert f"in use by process {os.getpid()} " in ran.stderr
    assert ran.returncode == 1
    del dataset, rows
    assert feedline("cache", "rm", location, entry.key).code == 0


@pytest.mark.parametrize("args", [["ls"], ["show", KEY], ["rm", KEY], ["evict", "0"]])
def test_what_a_user_says_of_itself_is_nothing_for_the_terminal_to_obey(feedline, location, args):
    put_entry(location, KEY, 10)
    with opened(DirectoryStore(location), KEY):
        [mark] = (location / KEY / "users").iterdir()
        mark.write_text("process \x1b]0;mine\x07 on a host")
        ran = feedline("cache", args[0], location, *args[1:])
    told = ran.out + ran.err
    assert "process ?]0;mine? on a host" in told
    assert told.replace("\n", "").isprintable()


def test_an_error_is_nothing_for_the_terminal_to_obey(feedline, tmp_path):
    (tmp_path / "\x1b[31m").touch()
    ran = feedline("cache", "ls", tmp_path / "\x1b[31m")
    assert f"{tmp_path}/?[31m" in ran.err
    assert "\x1b" not in ran.err
    assert ran.code == 1


@pytest.mark.parametrize("command", [["ls"], ["show", "abcd"], ["verify"], ["rm", "abcd"], ["evict", "1GB"]])
def test_a_directory_that_does_not_exist_is_an_error(feedline, tmp_path, command):
    location = tmp_path / "nowhere"
    name, *arguments = command
    ran = feedline("cache", name, location, *arguments)
    assert f"feedline: {location}: there is no such directory" in ran.err
    assert ran.out == ""
    assert ran.code == 2
    location.mkdir()
    assert feedline("cache", "ls", location).code == 0
