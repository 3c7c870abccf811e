def test_count_prints_a_line_for_each_file_and_the_total_apart(feedline, write):
    few, many = write("few.tfrecord", [b"x"] * 2), write("many.tfrecord", [b"x"] * 1500)
    ran = feedline("count", few, many)
    assert [line.split() for line in ran.out.splitlines()] == [["2", few], ["1,500", many]]
    assert ran.err.split() == ["1,502", "in", "2", "files"]
    assert ran.code == 0


def test_count_of_one_file_has_no_total(feedline, write):
    assert feedline("count", write("a.tfrecord", [b"x"])).err == ""


def test_count_of_an_empty_file_is_0(feedline, write):
    path = write("empty.tfrecord", [])
    assert feedline("count", "--json", path).lines() == [{"path": path, "records": 0}]


def test_count_takes_directories_and_globs(feedline, write, tmp_path):
    paths = [write("a.tfrecord", [b"x"]), write("b.tfrecord", [b"x", b"y"])]
    expected = [{"path": paths[0], "records": 1}, {"path": paths[1], "records": 2}]
    assert feedline("count", "--json", tmp_path).lines() == expected
    assert feedline("count", "--json", tmp_path / "*.tfrecord").lines() == expected
