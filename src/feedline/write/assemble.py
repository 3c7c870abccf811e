"""Parts -> shards: what producers wrote becomes the files of a set.

Every part is walked to its end and every checksum in it is checked; where records begin is kept in a file
beside it, not in memory. Shards are stretches of the parts, one after another: equal numbers of records, or
parts put together up to a size. A part that is a shard by itself is not copied.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from errno import ECANCELED, EIO
from itertools import islice
from threading import Event
from typing import TypeVar

import numpy as np

from feedline import _native
from feedline.errors import CorruptRecord, WriteError
from feedline.records.faults import to_error
from feedline.records.indexing import FRAMING, Offsets, write_index
from feedline.records.reading import batches
from feedline.records.shard_files import Progress, Shard, shard_name
from feedline.write.keys import key_text
from feedline.write.parts import OWN, PART, locked, read_kept

_CHUNK = 1 << 20
_THREADS = 4
_WBITS = {"gzip": 31, "zlib": 15}  # zlib's numbers for its two containers

_A = TypeVar("_A")
_B = TypeVar("_B")


@dataclass(frozen=True)
class Producer:
    id: str
    name: str | None
    process: int
    parts: tuple[str, ...]

    @property
    def is_resumable(self) -> bool:
        return self.name is not None or self.id == OWN

    def __str__(self) -> str:
        who = f"process {self.process}"
        return who if self.name is None else f"producer {self.name!r} ({who})"


@dataclass(frozen=True)
class Part:
    """A part that is whole; `offsets` says where its records begin and the last one ends."""

    path: str
    offsets: Offsets

    @property
    def size(self) -> int:
        return int(self.offsets[-1])

    @property
    def records(self) -> int:
        return len(self.offsets) - 1


@dataclass(frozen=True)
class Stretch:
    """Some records of a part, by their numbers."""

    part: Part
    first: int
    end: int

    @property
    def is_whole(self) -> bool:
        return self.end - self.first == self.part.records

    @property
    def offsets(self) -> Offsets:
        return self.part.offsets[self.first : self.end + 1]


def producers_in(staging: str) -> list[Producer]:
    """The opener's own first, then those with names, then the processes as they began."""
    found = []
    for id in os.listdir(staging):
        home = os.path.join(staging, id)
        if not os.path.isdir(home):
            continue
        parts = sorted(name for name in os.listdir(home) if name.endswith(PART))
        if parts:
            with open(os.path.join(home, "producer.json"), "rb") as file:
                name, process = json.loads(file.read())
            found.append(Producer(id, name, process, tuple(os.path.join(home, part) for part in parts)))
    return sorted(found, key=lambda one: (one.id != OWN, one.name is None, one.name or one.id))


def walk(producers: list[Producer], stop: Event) -> list[list[Part]]:
    """The parts of each, when the writes in them have ended. WriteError if one is torn."""
    tasks = [(producer, path) for producer in producers for path in producer.parts]
    parts = iter(in_threads(lambda task: _walk(*task, stop), tasks, stop))
    return [list(islice(parts, len(producer.parts))) for producer in producers]


def _walk(producer: Producer, path: str, stop: Event) -> Part:
    with open(path, "rb") as file, locked(file.fileno()):
        size = os.fstat(file.fileno()).st_size
    kept, end = path + ".offsets", 0
    try:
        with open(kept, "wb") as offsets:
            for _, batch in batches(path, "none", resync=False):
                _go_on(stop)
                for fault in batch.check():
                    raise to_error(fault)
                if len(batch):
                    offsets.write(batch.offsets.data)
                    end = int(batch.offsets[-1] + batch.sizes[-1]) + FRAMING
            offsets.write(np.uint64(end).tobytes())
            if end != size:  # readers let a record pass that seems to be written just now
                raise CorruptRecord(f"{size - end:,} bytes at its end are no record")
    except CorruptRecord as error:
        raise WriteError(
            EIO,
            f"{path}: {producer} left a record that is not whole: {error.what}. It was killed while it "
            "wrote, or its disk failed. Nothing was committed.\n"
            "  To keep what producers sealed and write the rest, open the writer again with resume=True.",
        ) from error
    small = os.path.getsize(kept) <= _CHUNK
    return Part(path, np.fromfile(kept, np.uint64) if small else np.memmap(kept, np.uint64, "r"))


def balanced(parts: list[Part], count: int) -> list[list[Stretch]]:
    """So many shards, whose numbers of records differ by one at most."""
    each, more = divmod(sum(part.records for part in parts), count)
    shards = []
    number = first = 0
    for shard in range(count):
        stretches = []
        left = each + (shard < more)
        while left:
            part = parts[number]
            take = min(left, part.records - first)
            if take:
                stretches.append(Stretch(part, first, first + take))
            left -= take
            first += take
            if first == part.records:
                number, first = number + 1, 0
        shards.append(stretches)
    return shards


def limited(parts: list[Part], limit: int) -> list[list[Stretch]]:
    """As many shards as are needed for none to be larger, unless it holds a single record that is."""
    shards: list[list[Stretch]] = []
    room = 0
    for stretch in (piece for part in parts for piece in _pieces(part, limit)):
        size = int(stretch.offsets[-1] - stretch.offsets[0])
        if size > room or not shards:
            shards.append([])
            room = limit
        shards[-1].append(stretch)
        room -= size
    return shards or [[]]


def _pieces(part: Part, limit: int) -> Iterator[Stretch]:
    """The part, or if it is too large, what it must be cut into."""
    first = 0
    while first < part.records:
        end = int(np.searchsorted(part.offsets, part.offsets[first] + np.uint64(limit), "right")) - 1
        end = max(end, first + 1)
        yield Stretch(part, first, end)
        first = end


def write_shards(
    place: str, prefix: str, shards: list[list[Stretch]], compression: str, stop: Event
) -> tuple[Shard, ...]:
    """The files of the set, on the disk, with their indexes."""

    def write(number: int) -> Shard:
        stretches, name = shards[number], shard_name(prefix, number, len(shards))
        path = os.path.join(place, name)
        size, checksum = _write_shard(path, stretches, compression, stop)
        if compression == "none":
            write_index(path, _offsets(stretches))
        return Shard(name, sum(stretch.end - stretch.first for stretch in stretches), size, checksum)

    return tuple(in_threads(write, range(len(shards)), stop))


def _write_shard(path: str, stretches: list[Stretch], compression: str, stop: Event) -> tuple[int, int]:
    """Its size and its checksum."""
    is_there = (
        compression == "none" and len(stretches) == 1 and stretches[0].is_whole and _link(stretches[0], path)
    )
    size = checksum = 0
    with open(path, "rb" if is_there else "xb") as file:
        for chunk in _deflated(_chunks(stretches, stop), compression):
            if not is_there:
                file.write(chunk)
            checksum = _native.crc32c(np.frombuffer(chunk, np.uint8), checksum)
            size += len(chunk)
        file.flush()
        os.fsync(file.fileno())
    return size, checksum


def _link(stretch: Stretch, path: str) -> bool:
    try:
        os.link(stretch.part.path, path)
    except OSError:  # not every file system can
        return False
    return True


def _chunks(stretches: list[Stretch], stop: Event) -> Iterator[memoryview]:
    """Their bytes; each chunk is good until the next."""
    buffer = memoryview(bytearray(_CHUNK))
    for stretch in stretches:
        at, end = int(stretch.offsets[0]), int(stretch.offsets[-1])
        with open(stretch.part.path, "rb", buffering=0) as file:
            while at < end:
                _go_on(stop)
                size = os.preadv(file.fileno(), [buffer[: end - at]], at)
                if not size:
                    raise OSError(EIO, f"{stretch.part.path} was cut off at byte {at:,}")
                yield buffer[:size]
                at += size


def _deflated(chunks: Iterator[memoryview], compression: str) -> Iterator[memoryview | bytes]:
    if compression == "none":
        yield from chunks
        return
    deflater = zlib.compressobj(wbits=_WBITS[compression])
    for chunk in chunks:
        yield deflater.compress(chunk)
    yield deflater.flush()


def _offsets(stretches: list[Stretch]) -> Offsets:
    """Where the records of a shard begin, and the last one ends."""
    begin, made = np.uint64(0), []
    for stretch in stretches:
        moved = stretch.offsets - stretch.offsets[0] + begin
        made.append(moved[:-1])
        begin = moved[-1]
    return np.concatenate([*made, np.array([begin], np.uint64)])


def progress_of(producer: Producer, parts: list[Part]) -> Progress:
    """How far it got, for a run that finds the set committed."""
    name = producer.name and producer.name.encode(errors="backslashreplace").decode()
    last_key = read_kept(os.path.dirname(producer.parts[0])).last_key
    return Progress(producer.id, name, sum(part.records for part in parts), key_text(last_key))


def in_threads(do: Callable[[_A], _B], tasks: Sequence[_A], stop: Event) -> list[_B]:
    """The results in order. The first failure, or Ctrl-C, ends the others."""
    from concurrent.futures import ThreadPoolExecutor  # imported when it is needed: it takes a while

    with ThreadPoolExecutor(_THREADS) as pool:
        pending = [pool.submit(do, task) for task in tasks]
        try:
            return [future.result() for future in pending]
        except BaseException:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _go_on(stop: Event) -> None:
    if stop.is_set():
        raise OSError(ECANCELED, "another thread has failed")
