"""Writers of one file that are killed: nothing that they saw written is lost, and nothing is there twice."""

from __future__ import annotations

from feedline import AppendWriter, FixedLenFeature, example, records
from tests.processes import run_python

# Forks writers that open the file on their own: five at once, killed one by one at random moments while the
# others write on, round after round. Each says before and after a write which record it is.
ROUNDS, AT_ONCE = 60, 5
CHAOS = """
import json, os, random, signal, sys, time
import feedline as fl
from feedline import records

path, rounds, at_once = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
chance = random.Random(int(sys.argv[4]))

def write_on(who, said):
    writer = fl.AppendWriter(path)
    n = 0
    while True:
        size = (n * 7919 + who * 104729) % 500_000 if n % 3 else n % 50
        if n % 10:
            numbers = [n]
            os.write(said, b"?%d\\n" % n)
            writer.write(b"%d %d " % (who, n) + b"." * size)
        else:
            numbers = range(n, n + 5)
            os.write(said, b"".join(b"?%d\\n" % n for n in numbers))
            batch = [b"%d %d " % (who, n) + b"," * (size // 5) for n in numbers]
            writer.write_batch({"x": batch})
        os.write(said, b"".join(b"!%d\\n" % n for n in numbers))
        n += len(numbers)

torn = 0
for turn in range(rounds):
    running = []
    for who in range(turn * at_once, (turn + 1) * at_once):
        said = os.open(f"{path}.said.{who}", os.O_WRONLY | os.O_CREAT)
        child = os.fork()
        if child == 0:
            try:
                write_on(who, said)
            except BaseException as error:
                os.write(2, f"{type(error).__name__}: {error}\\n".encode())
                os._exit(1)
        os.close(said)
        running.append(child)
    # None is killed before it has confirmed a record, however long it takes to be given a core.
    until = time.monotonic() + 200
    names = [f"{path}.said.{who}" for who in range(turn * at_once, (turn + 1) * at_once)]
    while not all(b"!" in open(name, "rb").read() for name in names) and time.monotonic() < until:
        time.sleep(0.002)
    for child in running:
        time.sleep(chance.random() * 0.01)
        os.kill(child, signal.SIGKILL)
        status = os.waitpid(child, 0)[1]
        assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, status
    torn += not records.verify(path).ok
print(torn)
"""


def names(record):
    """Who wrote it, and its number."""
    if not record[:1].isdigit():
        record = example.decode(record, {"x": FixedLenFeature([], "string")})["x"]
    who, n, _ = record.split(b" ", 2)
    return int(who), int(n)


def test_no_confirmed_record_is_lost_or_doubled_when_writers_are_killed_at_any_moment(tmp_path):
    path = tmp_path / "a.tfrecord"
    done = run_python(CHAOS, str(path), str(ROUNDS), str(AT_ONCE), "1", timeout=200)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 0, "no kill hit a write: the moments are badly chosen"
    AppendWriter(path).close()
    assert records.verify(path).findings == []
    found = [names(record) for record in records.read(path)]
    assert len(set(found)) == len(found)
    written = {who: set() for who in range(ROUNDS * AT_ONCE)}
    for who, n in found:
        written[who].add(n)
    confirmed = 0
    for who in written:
        said = (tmp_path / f"a.tfrecord.said.{who}").read_text().splitlines()
        announced, sure = ({int(line[1:]) for line in said if line[0] == mark} for mark in "?!")
        assert sure <= written[who] <= announced
        confirmed += len(sure)
    assert confirmed >= ROUNDS * AT_ONCE
