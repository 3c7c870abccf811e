"""The checkpoints of ResumeCallback, without a framework."""

import pytest

from feedline.adapt.resume import Checkpoints


def save(checkpoints, text):
    with checkpoints.new() as directory:
        (directory / "file").write_text(text)


def test_the_newest_is_the_last_that_was_saved(tmp_path):
    checkpoints = Checkpoints(tmp_path / "not there yet")
    assert checkpoints.newest() is None
    for number in range(12):
        save(checkpoints, str(number))
        assert (checkpoints.newest() / "file").read_text() == str(number)
    assert len(list((tmp_path / "not there yet").iterdir())) == 1


def test_an_error_while_saving_leaves_the_one_before(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    save(checkpoints, "good")
    with pytest.raises(TypeError):
        save(checkpoints, 5)  # no text
    assert (checkpoints.newest() / "file").read_text() == "good"
    assert len(list(tmp_path.iterdir())) == 1


def test_what_a_killed_process_left_does_not_count_and_goes_away(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    save(checkpoints, "old")
    save(checkpoints, "good")
    (tmp_path / "0").mkdir()  # killed while it removed the older one
    (tmp_path / ".unfinished").mkdir()  # killed while it wrote
    (tmp_path / ".unfinished" / "file").write_text("ba")
    assert (checkpoints.newest() / "file").read_text() == "good"
    save(checkpoints, "better")
    assert (checkpoints.newest() / "file").read_text() == "better"
    assert len(list(tmp_path.iterdir())) == 1
