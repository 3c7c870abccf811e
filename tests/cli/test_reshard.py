from feedline import records


def test_reshard_divides_files_and_says_how_many_records_there_are(feedline, pets, write, tmp_path):
    out = tmp_path / "out"
    ran = feedline("reshard", write("numbers", [b"1", b"2"]), pets, out, "--shards", 2)
    assert ran.out == ""
    assert f"{out}: 5 records of 2 files, in 2 shards" in ran.err
    assert ran.code == 0
    assert list(records.read(out))[:2] == [b"1", b"2"]


def test_reshard_as_json_is_one_object(feedline, write, tmp_path):
    out = tmp_path / "out"
    numbers = write("numbers", [b"1", b"22"])
    (result,) = feedline("reshard", "--json", "-n", 3, "--prefix", "n", numbers, out).lines()
    assert result == {"directory": str(out), "files": 1, "shards": 3, "records": 2}
    assert (out / "n-00002-of-00003.tfrecord").exists()


def test_reshard_of_a_damaged_file_names_it_and_exits_1(feedline, pets, damaged, tmp_path):
    ran = feedline("reshard", pets, damaged, tmp_path / "out", "-n", 2)
    assert f"{damaged}: record 9 at byte 225" in ran.err
    assert ran.code == 1
    assert not (tmp_path / "out").exists()


def test_reshard_without_a_number_of_shards_exits_2(feedline, pets, tmp_path):
    assert feedline("reshard", pets, tmp_path / "out").code == 2
    assert feedline("reshard", pets, tmp_path / "out", "-n", 0).code == 2
