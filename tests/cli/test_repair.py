from pathlib import Path

from feedline import records


def test_repair_keeps_the_good_records_and_lists_the_others(feedline, damaged, tmp_path):
    out = tmp_path / "mended.tfrecord"
    ran = feedline("repair", damaged, out)
    kept = [b"payload %d" % number for number in range(9) if number != 4]
    assert list(records.read(str(out))) == kept
    assert [line.split(" at ")[0] for line in ran.out.splitlines()] == [
        f"{damaged}: record 4",
        f"{damaged}: record 9",
    ]
    assert "8 records kept" in ran.err
    assert ran.code == 1


def test_repair_of_a_sound_file_copies_it_and_exits_0(feedline, pets, tmp_path):
    out = tmp_path / "copy.tfrecord"
    ran = feedline("repair", pets, out)
    assert out.read_bytes() == Path(pets).read_bytes()
    assert ran.out == ""
    assert ran.code == 0


def test_repair_as_json_says_what_was_kept_and_what_was_not(feedline, damaged, tmp_path):
    (result,) = feedline("repair", "--json", damaged, tmp_path / "mended.tfrecord").lines()
    assert result["kept"] == 8
    assert [finding["record"] for finding in result["findings"]] == [4, 9]
