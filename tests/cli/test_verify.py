def test_verify_of_sound_files_prints_only_a_summary(feedline, pets):
    ran = feedline("verify", pets)
    assert ran.out == ""
    assert "1 file, 3 good records" in ran.err
    assert "no findings" in ran.err
    assert ran.code == 0


def test_verify_prints_a_line_for_each_finding_and_exits_1(feedline, damaged, pets):
    ran = feedline("verify", damaged, pets)
    first, second = ran.out.splitlines()
    assert first.startswith(f"{damaged}: record 4 at byte 100: ")
    assert second.startswith(f"{damaged}: record 9 at byte 225: ")
    assert "2 files, 11 good records" in ran.err
    assert "2 findings" in ran.err
    assert ran.code == 1


def test_verify_as_json_gives_an_object_for_each_finding(feedline, damaged):
    ran = feedline("verify", "--json", damaged)
    assert [(found["path"], found["record"], found["offset"]) for found in ran.lines()] == [
        (damaged, 4, 100),
        (damaged, 9, 225),
    ]
    assert all(found["what"] for found in ran.lines())
    assert ran.code == 1


def test_verify_of_random_bytes_finds_something(feedline, tmp_path):
    path = tmp_path / "noise"
    path.write_bytes(bytes(range(256)) * 4)
    ran = feedline("verify", path)
    assert ran.out.startswith(str(path))
    assert ran.code == 1
