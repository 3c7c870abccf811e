"""A cache entry with damage: whatever it is, the output is right, and what was damaged is made again."""

from __future__ import annotations

import ast
import pickle
import struct
from contextlib import suppress
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feedline import Dataset, _native, frame
from feedline.block import Block
from feedline.cache import filling, part, shared
from feedline.cache import plan as documents
from feedline.cache.part import Made
from feedline.cache.plan import Manifest, Plan
from feedline.errors import CorruptRecord

ROWS = 2000


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch):
    """Of 256 numbers; of an indexed entry of 128."""
    monkeypatch.setattr(filling, "PART_BYTES", 2048)
    monkeypatch.setattr(filling, "PART_SECONDS", 1000.0)


@pytest.fixture(autouse=True)
def _no_pickle(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("a pickle was loaded")

    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(pickle, name, refuse)


class Entries:
    """Pipelines of 2,000 numbers, cached at a location; and what they computed."""

    def __init__(self, kind, location):
        self.kind = kind
        self.location = location
        self.calls = []

    def dataset(self, version="1", location=None):
        def compute(x):
            self.calls.append(int(x))
            return x

        source = Dataset.range(ROWS)
        if self.kind == "streamed":
            source = source.filter(lambda x: True)
        return source.map(compute).cache(location or self.location, version=version)

    def run(self):
        """What was computed, in order."""
        self.calls.clear()
        assert [int(x) for x in self.dataset()] == list(range(ROWS))
        return sorted(self.calls)

    def fill(self, *, is_complete):
        if is_complete:
            assert self.run() == list(range(ROWS))
        else:  # three parts or more
            rows = iter(self.dataset())
            for _ in range(600):
                next(rows)
            rows.close()
        assert [path.exists() for path in map(self.part, range(4))] == [True, True, True, is_complete]
        assert self.item("manifest").exists() == is_complete

    def item(self, name):
        [entry] = self.location.iterdir()
        return entry / "items" / name

    def part(self, number):
        return self.item(documents.name_of(number))

    def rows_of(self, number):
        """Those that are in the part, by its footer."""
        plan = documents.digest(self.item("plan").read_bytes())
        found = part.decode(self.part(number).read_bytes(), plan, number)
        return list(range(found.first, found.first + found.block.rows))


@pytest.fixture(params=["indexed", "streamed"])
def entries(request, tmp_path):
    return Entries(request.param, tmp_path / "cache")


@pytest.fixture(params=[True, False], ids=["complete", "incomplete"])
def is_complete(request):
    return request.param


def replace(path, data):
    """As a new file: whoever has the old one mapped keeps it."""
    path.unlink()
    path.write_bytes(data)


def damages(data):
    """A part with damage of each kind."""
    tail, footer = len(data) - 32, len(data) - 60
    yield "empty", b""
    for size in (1, 31, 32, 33, 64, len(data) // 2, footer, tail, tail + 8, len(data) - 1):
        yield f"cut at {size}", data[:size]
    yield "longer", data + b"\0"
    yield "zeros", bytes(len(data))
    yield "without its beginning", data[1:]
    for at in (0, 9, 13, 20, 33, 70, 200, len(data) // 2, footer, tail - 1, *range(tail, len(data), 5)):
        yield f"flipped at {at}", data[:at] + bytes([data[at] ^ 16]) + data[at + 1 :]
    yield "a pickle", pickle.dumps(Loaded())
    yield "text", b"a text"


class Loaded:
    def __reduce__(self):
        return print, ("code from a cache was run",)


def test_a_damaged_part_is_computed_again_once(entries, is_complete, capfd):
    entries.fill(is_complete=is_complete)
    whole, rows = entries.part(1).read_bytes(), entries.rows_of(1)
    missing = [] if is_complete else list(range(entries.rows_of(2)[-1] + 1, ROWS))
    for what, data in damages(whole):
        replace(entries.part(1), data)
        with pytest.warns(RuntimeWarning, match=r"part 1: .* It is computed again") as told:
            assert entries.run() == sorted(rows + missing), what
        assert len(told) == 1, what
        missing = []
        assert entries.rows_of(1) == rows, what
        assert entries.run() == [], what
    assert capfd.readouterr().out == ""


def test_a_part_that_is_gone_is_computed_again(entries, is_complete):
    entries.fill(is_complete=is_complete)
    for number in range(3):
        rows = entries.rows_of(number)
        entries.part(number).unlink()
        computed = entries.run()
        assert set(rows) <= set(computed)
        assert len(computed) < ROWS
        assert entries.rows_of(number) == rows
        assert entries.run() == []


@pytest.mark.parametrize("numbers", [(0, 1), (1, 2), (0, 1, 2), (0, 2)])
@pytest.mark.parametrize("size", [1, 700, 4200])
def test_neighbours_may_be_damaged_and_made_again_with_other_sizes(
    entries, is_complete, numbers, size, monkeypatch
):
    entries.fill(is_complete=is_complete)
    for number in numbers:
        replace(entries.part(number), b"damaged")
    monkeypatch.setattr(filling, "PART_BYTES", size)
    monkeypatch.setattr(filling, "EVEN", 100)
    with pytest.warns(RuntimeWarning, match="It is computed again"):
        entries.run()
    assert entries.run() == []


def test_a_manifest_of_other_sizes_misleads_nobody(tmp_path, monkeypatch):
    entries = Entries("streamed", tmp_path / "cache")
    entries.fill(is_complete=True)
    old = entries.item("manifest").read_bytes()
    state = state_after(entries, 900)
    entries.item("manifest").unlink()
    for number in range(4):
        entries.part(number).unlink()
    with monkeypatch.context() as patch:
        patch.setattr(filling, "PART_BYTES", 4200)
        entries.run()
    replace(entries.item("manifest"), old)
    assert entries.run() == []
    rows = iter(entries.dataset())
    rows.load_state_dict(state)
    assert [int(x) for x in rows] == list(range(900, ROWS))
    for number in (1, 2, 0):
        entries.part(number).unlink()
        assert len(entries.run()) < ROWS
        assert entries.run() == []


def test_parts_that_are_swapped(entries, is_complete):
    entries.fill(is_complete=is_complete)
    one, two = entries.part(0).read_bytes(), entries.part(1).read_bytes()
    rows = entries.rows_of(0) + entries.rows_of(1)
    replace(entries.part(0), two)
    replace(entries.part(1), one)
    with pytest.warns(RuntimeWarning, match="It is computed again") as told:
        assert set(rows) <= set(entries.run())
    assert len(told) == 2
    assert entries.rows_of(0) + entries.rows_of(1) == rows
    assert entries.run() == []


def test_a_part_of_another_entry(entries, tmp_path, is_complete):
    entries.fill(is_complete=is_complete)
    other = Entries(entries.kind, tmp_path / "other")
    assert [int(x) for x in other.dataset(version="2")] == list(range(ROWS))
    rows = entries.rows_of(1)
    replace(entries.part(1), other.part(1).read_bytes())
    with pytest.warns(RuntimeWarning, match="follow another plan") as told:
        assert set(rows) <= set(entries.run())
    assert len(told) == 1
    assert entries.run() == []


def test_a_plan_with_seeds_for_other_steps_is_not_followed(entries, is_complete):
    entries.fill(is_complete=is_complete)
    plan = documents.decode(entries.item("plan").read_bytes(), Plan)
    forged = msgspec.structs.replace(plan, seeds=(1, 2))
    replace(entries.item("plan"), documents.encode(forged))
    with pytest.warns(RuntimeWarning, match="its plan has 2 seeds, and this pipeline 0 steps") as told:
        assert entries.run() == list(range(ROWS))
    assert len(told) == 1
    if entries.kind == "indexed":
        with pytest.warns(RuntimeWarning, match="goes on without"):
            assert entries.dataset()[7] == 7


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "gone", "another entry's", "a pickle"])
def test_a_damaged_plan_is_one_warning_and_all_is_computed_once(entries, is_complete, damage, tmp_path):
    entries.fill(is_complete=is_complete)
    data = entries.item("plan").read_bytes()
    if damage == "another entry's":
        other = Entries(entries.kind, tmp_path / "other")
        assert len(list(other.dataset(version="2"))) == ROWS
        data = other.item("plan").read_bytes()
    damaged = {
        "cut": data[:-5],
        "flipped": data[:40] + bytes([data[40] ^ 1]) + data[41:],
        "empty": b"",
        "another entry's": data,
        "a pickle": pickle.dumps(Loaded()),
    }
    if damage == "gone":
        entries.item("plan").unlink()
    else:
        replace(entries.item("plan"), damaged[damage])
    with pytest.warns(RuntimeWarning, match="plan") as told:
        assert entries.run() == list(range(ROWS))
    assert len(told) == 1
    assert entries.run() == []
    assert entries.item("manifest").exists()


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "gone", "another entry's"])
def test_a_damaged_manifest_is_made_again_and_nothing_is_computed(entries, damage, tmp_path):
    entries.fill(is_complete=True)
    data = entries.item("manifest").read_bytes()
    if damage == "another entry's":
        data = documents.encode(Manifest("00" * 16, (1, 2, 3)))
    damaged = {
        "cut": data[:-5],
        "flipped": b"0" + data[1:] if data[:1] != b"0" else b"1" + data[1:],
        "empty": b"",
    }
    if damage == "gone":
        entries.item("manifest").unlink()
    else:
        replace(entries.item("manifest"), damaged.get(damage, data))
    if damage in damaged:
        with pytest.warns(RuntimeWarning, match="the manifest of a cache entry is damaged") as told:
            assert entries.run() == []
        assert len(told) == 1
    else:
        assert entries.run() == []
    found = documents.decode(entries.item("manifest").read_bytes(), Manifest)
    assert sum(found.rows) == ROWS
    rows = iter(entries.dataset())
    rows.load_state_dict(state_after(entries, 700))
    assert [int(x) for x in rows] == list(range(700, ROWS))


def state_after(entries, count):
    with iter(entries.dataset()) as rows:
        for _ in range(count):
            next(rows)
        return rows.state_dict()


def test_a_plan_that_is_damaged_while_runs_go_on(entries):
    """Those that follow the old one go on by themselves, and nothing is mixed up."""
    old = iter(entries.dataset())
    got = [int(next(old)) for _ in range(100)]
    replace(entries.item("plan"), b"damaged")
    with pytest.warns(RuntimeWarning, match="plan"):
        assert [int(x) for x in entries.dataset()] == list(range(ROWS))
    with pytest.warns(RuntimeWarning, match="begun anew meanwhile") as told:
        got += [int(x) for x in old]
    assert len(told) == 1
    assert got == list(range(ROWS))
    assert entries.run() == []


def test_an_element_that_fails_when_it_is_made_again_comes_in_its_place(tmp_path):
    def fail(x):
        if fails and x == 300:
            raise ZeroDivisionError
        return x

    def events():
        rows, found = (
            iter(Dataset.range(ROWS).filter(lambda x: True).map(fail).cache(tmp_path, version="1")),
            [],
        )
        while True:
            try:
                found.append(int(next(rows)))
            except ZeroDivisionError:
                found.append("failed")
            except StopIteration:
                return found

    fails = False
    assert events() == list(range(ROWS))
    [entry] = tmp_path.iterdir()
    replace(entry / "items" / "part-00000001", b"damaged")
    fails = True
    with pytest.warns(RuntimeWarning, match="It is computed again"):
        assert events() == [*range(300), "failed", *range(301, ROWS)]


def test_damage_by_index(tmp_path):
    entries = Entries("indexed", tmp_path)
    entries.fill(is_complete=True)
    rows = entries.rows_of(2)
    replace(entries.part(2), entries.part(2).read_bytes()[:-1])
    entries.calls.clear()
    with pytest.warns(RuntimeWarning, match="part 2"):
        assert sorted(int(x) for x in entries.dataset().shuffle(seed=1)) == list(range(ROWS))
    assert sorted(entries.calls) == rows


# Parts from an attacker: their checksums fit


def forged(plan, *, number=0, first=0, is_last=False, after="null", framed=None, footer=None):
    framed = bytes(frame.encode(Block.from_elements([1, 2, 3]))) if framed is None else framed
    if footer is None:
        footer = msgspec.msgpack.encode([plan, number, first, is_last, after])
    crc, footer_crc = (_native.crc32c(np.frombuffer(data, np.uint8)) for data in (framed, footer))
    return framed + footer + struct.pack("<IIIIQ8s", crc, footer_crc, 1, len(footer), len(framed), part.MAGIC)


def test_a_forged_part_with_other_rows_is_computed_again(entries):
    entries.fill(is_complete=True)
    plan = documents.digest(entries.item("plan").read_bytes())
    whole = part.decode(entries.part(1).read_bytes(), plan, 1)
    wrong_place = {"number": 1, "first": whole.first + 5}
    no_rows = {"number": 1, "first": whole.first, "framed": bytes(frame.encode(whole.block.slice(0, 0)))}
    for forgery in [wrong_place] + [no_rows] * (entries.kind == "indexed"):
        replace(entries.part(1), forged(plan, **forgery))
        assert entries.run() == list(range(whole.first, whole.first + whole.block.rows))
        assert entries.run() == []


HOSTILE = [
    {"after": "[" * 100_000},
    {"after": "{"},
    {"after": "1e999999999" * 1000},
    {"after": "9" * 100_000},
    {"number": -1},
    {"number": 1 << 63},
    {"first": -5},
    {"first": (1 << 64) - 1},
    {"framed": b""},
    {"framed": bytes(64)},
    {"framed": pickle.dumps(print)},
    {"framed": b"FLframe\0" + bytes(4) + struct.pack("<IIIQ", 1, 0xFFFFFFFF, 0, 64) + bytes(32)},
    {"framed": b"FLframe\0" + bytes(4) + struct.pack("<IIIQ", 1, 8, 0, (1 << 64) - 64) + bytes(32)},
    {"footer": b""},
    {"footer": b"\xdd\xff\xff\xff\xff"},
    {"footer": b"\x91" * 100_000},
    {"footer": b"\xc6\xff\xff\xff\xff" + bytes(40)},
    {"footer": pickle.dumps(print)},
    {"footer": msgspec.msgpack.encode(["a plan", 0, 0, False, "null"])},
    {"footer": msgspec.msgpack.encode([b"plan", 0, 0, False, b"\xff\xfe"])},
    {"footer": msgspec.msgpack.encode([b"plan", 0, 0, False, "null", "more"])},
]


@pytest.mark.parametrize("hostile", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_part_is_found_out(hostile):
    with pytest.raises(CorruptRecord):
        part.decode(forged(b"plan", **hostile), b"plan", 0)


def test_a_sound_forgery_is_what_it_says():
    assert [int(x) for x in part.decode(forged(b"plan"), b"plan", 0).block] == [1, 2, 3]


@settings(max_examples=300)
@given(st.data())
def test_no_bytes_break_the_decoder_of_parts(data):
    made = Made(3, 7, [Block.from_elements([{"a": [1.5], "b": b"text"}, {"a": [2.5], "b": b""}])], False, [1])
    whole = b"".join(bytes(piece) for piece in part.encode(made, b"plan"))
    kind = data.draw(st.sampled_from(["bytes", "edit", "frame", "footer"]))
    if kind == "bytes":
        tried = data.draw(st.binary(max_size=200))
    elif kind == "edit":
        at = data.draw(st.integers(0, len(whole) - 1))
        tried = (
            whole[:at] + data.draw(st.binary(max_size=20)) + whole[data.draw(st.integers(at, len(whole))) :]
        )
    elif kind == "frame":  # behind checksums that fit
        framed = bytearray(whole[: struct.unpack("<Q", whole[-16:-8])[0]])
        for _ in range(data.draw(st.integers(1, 4))):
            framed[data.draw(st.integers(0, len(framed) - 1))] = data.draw(st.integers(0, 255))
        tried = forged(b"plan", number=3, framed=bytes(framed))
    else:
        tried = forged(b"plan", footer=data.draw(st.binary(max_size=60)))
    try:
        found = part.decode(tried, b"plan", 3)
    except CorruptRecord:
        return
    assert found.number == 3
    assert len(list(found.block)) == found.block.rows


@settings(max_examples=200)
@given(st.data(), st.sampled_from([Plan, Manifest]))
def test_no_bytes_break_the_decoder_of_documents(data, kind):
    plan = Plan(key="0" * 32, length=5, part_rows=2, seeds=(1, 2), made=0.0)
    text = documents.encode(plan if kind is Plan else Manifest("ab", (1, 2))).partition(b"\n")[2]
    if data.draw(st.booleans()):
        text = data.draw(st.binary(max_size=100))
    else:
        at = data.draw(st.integers(0, len(text) - 1))
        text = text[:at] + data.draw(st.binary(max_size=5)) + text[data.draw(st.integers(at, len(text))) :]
    body = text.removesuffix(b"\n")
    tried = data.draw(st.sampled_from([text, documents.digest(body).hex().encode() + b"\n" + body]))
    with suppress(CorruptRecord):
        assert isinstance(documents.decode(tried, kind), kind)


def test_the_cache_imports_nothing_that_loads_code():
    for module in Path(shared.__file__).parent.glob("*.py"):
        imported = {
            name.split(".")[0]
            for node in ast.walk(ast.parse(module.read_text()))
            if isinstance(node, ast.Import | ast.ImportFrom)
            for name in (
                [node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
            )
        }
        assert not imported & {"pickle", "cloudpickle", "marshal", "shelve", "dill", "joblib"}, module
