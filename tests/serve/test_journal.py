"""The journal of a job: what survives, what is cut off, and what is refused."""

from __future__ import annotations

import os

import pytest

from feedline.errors import ServiceError
from feedline.serve import journal
from feedline.serve.journal import Journal, journal_path


@pytest.fixture
def path(tmp_path):
    return journal_path(str(tmp_path / "jobs"), "a")


def written(path, count):
    opened = Journal(path)
    for number in range(count):
        opened.append({"number": number})
    opened.close()
    return [{"number": number} for number in range(count)]


def read(path):
    opened = Journal(path)
    opened.close()
    return opened.events


def test_events_are_there_again(path):
    assert written(path, 5) == read(path)


def test_a_torn_tail_is_cut_off_wherever_it_was_torn(path):
    events = written(path, 3)
    with open(path, "rb") as file:
        data = file.read()
    last = data[:-1].rindex(b"\n") + 1
    for size in range(last, len(data)):
        with open(path, "wb") as file:
            file.write(data[:size])
        assert read(path) == events[:2]
        assert os.path.getsize(path) == last
        opened = Journal(path)
        opened.append({"number": 2})
        opened.close()
        assert read(path) == events


def test_damage_in_front_of_sound_lines_is_an_error(path):
    written(path, 3)
    with open(path, "r+b") as file:
        file.seek(12)
        file.write(b"X")
    with pytest.raises(ServiceError, match="damaged at byte 0"):
        Journal(path)


def test_one_process_at_a_time_has_it(path, monkeypatch):
    monkeypatch.setattr(journal, "_LOCK_SECONDS", 0.1)
    first = Journal(path)
    with pytest.raises(ServiceError, match="belongs to another reader service: process"):
        Journal(path)
    first.close()
    read(path)


def test_a_snapshot_takes_the_place_of_events(path, monkeypatch):
    monkeypatch.setattr(journal, "_COMPACT", 100)
    opened = Journal(path)
    for number in range(100):
        if opened.has_grown:
            opened.replace({"all before": number})
        opened.append({"number": number})
    opened.close()
    events = read(path)
    assert len(events) < 20
    assert [event["number"] for event in events[1:]] == list(range(events[0]["all before"], 100))


def test_nothing_is_left_of_one_that_is_removed(path):
    opened = Journal(path)
    opened.append({"number": 0})
    opened.remove()
    assert not os.path.exists(os.path.dirname(path))


def test_long_names_have_files_of_their_own(tmp_path):
    names = {journal_path(str(tmp_path), "é" * 150 + str(number)) for number in range(3)}
    assert len(names) == 3
    assert all(len(os.path.basename(name)) < 240 for name in names)
