from feedline import records


def test_merge_joins_files_and_says_how_many_records_there_are(feedline, pets, write, tmp_path):
    out = tmp_path / "all.tfrecord"
    ran = feedline("merge", write("numbers", [b"1", b"2"]), pets, out)
    assert ran.out == ""
    assert f"{out}: 5 records of 2 files" in ran.err
    assert ran.code == 0
    assert list(records.read(out))[:2] == [b"1", b"2"]


def test_merge_as_json_is_one_object(feedline, write, tmp_path):
    out = tmp_path / "all"
    (result,) = feedline("merge", "--json", write("numbers", [b"1", b"22"]), out).lines()
    assert result == {"out": str(out), "files": 1, "records": 2, "bytes": 3}


def test_merge_of_a_damaged_file_names_it_and_exits_1(feedline, pets, damaged, tmp_path):
    ran = feedline("merge", pets, damaged, tmp_path / "out")
    assert f"{damaged}: record 4 at byte 100" in ran.err
    assert ran.code == 1
    assert not (tmp_path / "out").exists()


def test_merge_without_an_output_of_its_own_exits_2(feedline, pets, damaged):
    for args in ([pets], [damaged, pets], [pets, pets]):
        ran = feedline("merge", *args)
        assert ran.code == 2
        assert "Traceback" not in ran.err
