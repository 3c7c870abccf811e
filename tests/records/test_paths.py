"""resolve: a path, a glob, a directory, or a list of them."""

import os

import pytest

from feedline import ShardedWriter
from feedline.errors import UsageError
from feedline.records import count, index, read, read_blocks, resolve, verify
from feedline.records.features import VarLenFeature
from feedline.records.paths import compression_name
from tests.records.corrupt import example, frame, frames, ints


@pytest.fixture
def folder(tmp_path):
    for name in ("b.tfrecord", "a.tfrecord", "c.gz", ".hidden", "_SUCCESS", "a.tfrecord.flindex"):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "deeper").mkdir()
    (tmp_path / "deeper" / "d.tfrecord").write_bytes(b"")
    return tmp_path


def names(paths):
    return [os.path.basename(path) for path in paths]


def test_a_directory_stands_for_its_visible_files_sorted_without_sidecars(folder):
    assert names(resolve(folder)) == ["a.tfrecord", "b.tfrecord", "c.gz"]


def test_a_glob_stands_for_the_files_that_match_sorted_without_sidecars(folder):
    assert names(resolve(f"{folder}/*.tfrecord")) == ["a.tfrecord", "b.tfrecord"]
    assert names(resolve(f"{folder}/a*")) == ["a.tfrecord"]
    assert names(resolve(f"{folder}/**/*.tfrecord")) == ["a.tfrecord", "b.tfrecord", "d.tfrecord"]


@pytest.mark.parametrize("pattern", ["", "*", "a*", "**/*", "[!_]*"])
def test_what_feedline_wrote_beside_the_data_is_never_meant(folder, pattern):
    (folder / "a.tfrecord").write_bytes(frame(b"one"))
    index(folder / "a.tfrecord")
    with ShardedWriter(folder, prefix="all") as writer:
        writer.write(b"two")
    (folder / "all.manifest.json").write_bytes((folder / ".all.manifest.json").read_bytes())
    found = [name for name in names(resolve(f"{folder}/{pattern}")) if name.startswith("a")]
    assert found == ["a.tfrecord", "all-00000-of-00001.tfrecord"]


def test_hidden_files_that_a_glob_names_are_data_unless_feedline_wrote_them(folder):
    index(folder / "a.tfrecord")
    (folder / ".data.lock").write_bytes(b"")
    assert names(resolve(f"{folder}/.*")) == [".hidden"]


def test_a_glob_never_means_a_directory(folder):
    assert "deeper" not in names(resolve(f"{folder}/*"))


def test_a_sidecar_that_is_being_written_is_never_data(folder, monkeypatch):
    path = folder / "a.tfrecord"
    path.write_bytes(frame(b"one"))
    seen = []

    def replace(source, target):
        seen.extend([*names(resolve(folder)), *names(resolve(f"{folder}/a*"))])
        raise OSError("the machine stops here")

    monkeypatch.setattr(os, "replace", replace)
    index(path)
    assert seen == ["a.tfrecord", "b.tfrecord", "c.gz", "a.tfrecord"]


def test_a_list_keeps_its_order_and_may_mix_all_of_them(folder):
    given = [folder / "b.tfrecord", f"{folder}/a*", str(folder / "deeper")]
    assert names(resolve(given)) == ["b.tfrecord", "a.tfrecord", "d.tfrecord"]
    assert names(resolve(iter(given))) == ["b.tfrecord", "a.tfrecord", "d.tfrecord"]


def test_a_path_that_exists_is_taken_as_it_is_even_with_magic_in_it(tmp_path):
    odd = tmp_path / "a[1].tfrecord"
    odd.write_bytes(frame(b"odd"))
    (tmp_path / "a1.tfrecord").write_bytes(frame(b"plain"))
    assert list(read(odd)) == [b"odd"]


def test_a_name_that_is_not_unicode_is_read_too(tmp_path):
    path = os.path.join(tmp_path, os.fsdecode(b"\xff\xfe.tfrecord"))
    with open(path, "wb") as file:
        file.write(frames([example(a=ints(1))] * 3))
    assert len(list(read(path))) == count(path) == verify(path).records == len(index(path)) == 3
    assert [block.rows for block in read_blocks(tmp_path, {"a": VarLenFeature("int64")})] == [3]


def test_what_is_no_path_is_refused():
    with pytest.raises(UsageError, match="files=5: give a path, a glob, a directory, or a list of them"):
        read(5)


@pytest.mark.parametrize("files", [[], ()])
def test_no_files_at_all_is_refused(files):
    with pytest.raises(UsageError, match="files is empty"):
        resolve(files)


def test_an_empty_directory_and_a_glob_without_matches_are_refused(tmp_path):
    with pytest.raises(UsageError, match="holds no files"):
        read(tmp_path)
    with pytest.raises(UsageError, match="no file matches"):
        read(tmp_path / "*.tfrecord")


@pytest.mark.parametrize("ask", [lambda path: list(read(path)), count, verify, index])
def test_a_missing_file_is_told_as_open_tells_it(tmp_path, ask):
    with pytest.raises(FileNotFoundError) as caught:
        ask(tmp_path / "no.tfrecord")
    assert caught.value.filename == str(tmp_path / "no.tfrecord")


@pytest.mark.parametrize(
    ("given", "name"), [("auto", "auto"), (None, "none"), ("", "none"), ("GZIP", "gzip"), ("zlib", "zlib")]
)
def test_compressions_have_the_names_of_tf_data(given, name):
    assert compression_name(given) == name


def test_an_unknown_compression_is_refused_before_anything_is_read(tmp_path):
    with pytest.raises(UsageError, match=r"'SNAPPY'.*GZIP"):
        read(tmp_path / "no.tfrecord", compression="SNAPPY")
