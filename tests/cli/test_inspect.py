def test_inspect_shows_each_feature_in_a_row(feedline, pets):
    rows = {}
    for line in feedline("inspect", pets).out.splitlines():
        cells = [cell.strip() for cell in line.strip("│┃").split("│")]
        rows[cells[0]] = cells[1:]
    assert rows["age"] == ["int64", "()", "3", "1", "", "3"]
    assert rows["name"] == ["bytes", "()", "3", "1", "2 to 3", "'Tom'"]
    assert rows["pixels"] == ["float32", "(2,)", "3", "2", "", "0.1, 0.5"]
    assert rows["toys"] == ["bytes", "(2,)", "1", "2", "4", "'ball', 'bone'"]


def test_inspect_shows_the_facts_of_the_file(feedline, write):
    path = write("a.tfrecord", [{"x": 1}, {"longer name": [1, 2, 3]}])
    facts = feedline("inspect", "--json", path).lines()[0]
    assert facts["files"] == [path]
    assert facts["records"] == 2
    assert facts["compression"] == "none"
    sizes = facts["record_bytes"]
    assert sizes["min"] < sizes["mean"] < sizes["max"]
    assert facts["file_bytes"] == sizes["min"] + sizes["max"] + 2 * 16


def test_inspect_gives_the_range_where_records_differ(feedline, write):
    path = write("a.tfrecord", [{"x": [1]}, {"x": [1, 2, 3]}])
    feature = feedline("inspect", "--json", path).lines()[0]["features"]["x"]
    assert feature["values"] == [1, 3]
    assert feature["shape"] == [None]
    assert "1 to 3" in feedline("inspect", path).out


def test_inspect_shortens_a_long_sample(feedline, write):
    path = write("a.tfrecord", [{"x": list(range(100_000))}])
    assert len(feedline("inspect", "--json", path).lines()[0]["features"]["x"]["sample"]) < 100


def test_inspect_takes_several_files_as_one_dataset(feedline, write):
    paths = [write("a.tfrecord", [{"x": 1}]), write("b.tfrecord", [{"x": 1}, {"y": 2.5}])]
    facts = feedline("inspect", "--json", *paths).lines()[0]
    assert facts["records"] == 3
    assert {key: feature["records"] for key, feature in facts["features"].items()} == {"x": 2, "y": 1}


def test_inspect_says_so_when_records_are_no_examples(feedline, write):
    ran = feedline("inspect", write("raw.tfrecord", [b"\xff\xfe"] * 3))
    assert "The records are not tf.train.Example." in ran.out
    assert "ff fe" in ran.out
    assert ran.code == 0


def test_inspect_counts_the_records_that_are_no_examples(feedline, write):
    ran = feedline("inspect", write("mixed.tfrecord", [{"x": 1}, b"\xff\xfe"]))
    assert "1 of the records" in ran.out
    assert "int64" in ran.out


def test_inspect_of_an_empty_file_shows_0_records(feedline, write):
    ran = feedline("inspect", write("empty.tfrecord", []))
    assert "0 records" in ran.out
    assert ran.code == 0


def test_inspect_passes_over_damage_says_so_and_exits_1(feedline, damaged):
    ran = feedline("inspect", damaged)
    assert "8 records" in ran.out
    assert "2 damaged places" in ran.err
    assert ran.code == 1
    assert feedline("inspect", "--json", damaged).lines()[0]["damaged"] == 2


def test_square_brackets_in_keys_and_values_are_shown_as_they_are(feedline, write):
    out = feedline("inspect", write("a.tfrecord", [{"[bold]key": b"[red]value"}])).out
    assert "[bold]key" in out
    assert "[red]value" in out
