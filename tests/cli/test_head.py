import pytest


def test_head_shows_values_that_a_person_can_read(feedline, pets):
    ran = feedline("head", "-n", 1, pets)
    assert ran.out.splitlines()[0].startswith(f"{pets}: record 0, ")
    assert [line.split(maxsplit=1) for line in ran.out.splitlines()[1:]] == [
        ["age", "3"],
        ["name", "'Tom'"],
        ["photo", "ff d8 00"],
        ["pixels", "0.1, 0.5"],
    ]


def test_head_as_json_gives_text_as_strings_and_other_bytes_as_base64(feedline, pets):
    assert feedline("head", "-n", 1, "--json", pets).lines() == [
        {
            "path": pets,
            "record": 0,
            "features": {"age": [3], "name": ["Tom"], "photo": [{"base64": "/9gA"}], "pixels": [0.1, 0.5]},
        }
    ]


def test_head_as_json_is_valid_where_floats_are_not_finite(feedline, write):
    path = write("a.tfrecord", [{"x": [float("nan"), float("inf"), -float("inf")]}])
    ran = feedline("head", "--json", path)
    assert ran.lines()[0]["features"] == {"x": ["NaN", "Infinity", "-Infinity"]}


@pytest.mark.parametrize(("asked", "shown"), [(0, 0), (2, 2), (9, 3)])
def test_head_shows_as_many_records_as_asked_for(feedline, pets, asked, shown):
    assert len(feedline("head", "-n", asked, "--json", pets).lines()) == shown


def test_head_shows_the_bytes_of_records_that_are_no_examples(feedline, write):
    path = write("raw.tfrecord", [b"\xff\xfe"])
    assert "not a tf.train.Example: ff fe" in feedline("head", path).out
    assert feedline("head", "--json", path).lines() == [
        {"path": path, "record": 0, "bytes": {"base64": "//4="}}
    ]


def test_head_shows_the_steps_of_sequence_examples(feedline, write):
    tf = pytest.importorskip("tensorflow", reason="TensorFlow makes the SequenceExample")
    sequence = tf.train.SequenceExample()
    sequence.context.feature["id"].int64_list.value.append(5)
    for words in ([b"a"], [b"b", b"c"]):
        sequence.feature_lists.feature_list["words"].feature.add().bytes_list.value.extend(words)
    path = write("sequence.tfrecord", [sequence.SerializeToString()])
    assert feedline("head", "--json", path).lines() == [
        {"path": path, "record": 0, "context": {"id": [5]}, "sequences": {"words": [["a"], ["b", "c"]]}}
    ]
    assert "['a'], ['b', 'c']" in feedline("head", path).out


def test_head_shows_features_without_values_as_empty(feedline, write):
    path = write("a.tfrecord", [{"nothing": [], "x": 1}, {"nothing": []}, {}])
    assert [line["features"] for line in feedline("head", "--json", path).lines()] == [
        {"nothing": [], "x": [1]},
        {"nothing": []},
        {},
    ]


def test_head_of_a_damaged_file_shows_what_comes_before_the_damage(feedline, damaged):
    ran = feedline("head", "-n", 9, "--json", damaged)
    assert len(ran.lines()) == 4
    assert "record 4" in ran.err
    assert "corrupt" in ran.err
    assert ran.code == 1
