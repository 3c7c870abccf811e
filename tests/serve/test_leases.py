"""The leases of a pass: by example, and in random histories of asking, dying and restarting."""

from __future__ import annotations

import json
from collections import Counter
from random import Random

import pytest

from feedline.errors import UsageError
from feedline.serve.leases import BEGINNING, GRACE, PATIENCE, Delivery, End, Lease, Pass, Position, Read, Wait


class Service:
    """A pass, its input, and a journal from which both can be restored."""

    def __init__(self, ack, elements=10, failing=()):
        self.ack, self.elements, self.failing = ack, elements, frozenset(failing)
        self.journal = []
        self.leases = Pass(ack, self.journal.append)
        self.now = 0.0

    def restart(self, *, from_snapshot=False):
        if from_snapshot:
            self.leases = Pass(self.ack, self.journal.append, json.loads(json.dumps(self.leases.to_json())))
        else:
            self.leases = Pass(self.ack, self.journal.append)
            for event in json.loads(json.dumps(self.journal)):
                self.leases.apply(event)
        self.leases.begin_again(self.now)

    def ask(self, name, after, limit=3):
        """A delivery, Wait or End."""
        while isinstance(answer := self.leases.next(name, after, self.now), Read):
            at, rows = self.leases.given, 0
            while rows < limit and at + rows < self.elements and at + rows not in self.failing:
                rows += 1
            if at == self.elements:
                self.leases.end_input()
            else:
                return self.leases.add(name, rows, [at + max(1, rows), 0, 0])
        return answer

    def elements_of(self, lease):
        """Read again from the state in front of it."""
        before, drop, _ = lease.state
        first = (before or 0) + drop
        assert first == lease.first
        return list(range(first, first + lease.elements))

    def take(self, name, after, limit=3):
        """The elements, and the position after them."""
        delivery = self.ask(name, after, limit)
        assert isinstance(delivery, Delivery), delivery
        return self.elements_of(delivery.lease), delivery.after


def test_each_client_gets_other_elements():
    service = Service("next", elements=8)
    for name in "ab":
        service.leases.join(name, name)
    assert service.take("a", 0) == ([0, 1, 2], 1)
    assert service.take("b", 0) == ([3, 4, 5], 1)
    assert service.take("a", 1) == ([6, 7], 2)
    assert isinstance(service.ask("b", 1), Wait)
    assert service.ask("a", 2) == End()
    assert service.ask("b", 1) == End()
    assert service.leases.is_complete


def test_an_element_that_fails_goes_to_one_client():
    service = Service("next", elements=4, failing=[1])
    for name in "ab":
        service.leases.join(name, name)
    assert service.take("a", 0) == ([0], 1)
    failing = service.ask("b", 0)
    assert failing.lease == Lease(1, [1, 0, 0], 0)
    assert service.take("a", 1) == ([2, 3], 2)


def test_the_block_of_a_dead_client_goes_to_another_at_once_with_ack_next():
    service = Service("next", elements=6)
    for name in "ab":
        service.leases.join(name, name)
    assert service.take("a", 0) == ([0, 1, 2], 1)
    service.leases.leave("a", "a", service.now)
    assert service.take("b", 0) == ([0, 1, 2], 1)
    assert service.take("b", 1) == ([3, 4, 5], 2)
    assert service.ask("b", 2) == End()


def test_a_client_at_the_end_gets_the_block_of_one_that_dies_while_it_waits():
    service = Service("next", elements=3)
    for name in "ab":
        service.leases.join(name, name)
    service.take("a", 0)
    assert service.ask("b", 0) == Wait(PATIENCE)
    service.leases.leave("a", "a", service.now)
    assert service.take("b", 0) == ([0, 1, 2], 1)


def test_a_stopped_client_holds_the_others_up_for_a_few_seconds_only():
    service = Service("next", elements=3)
    for name in "ab":
        service.leases.join(name, name)
    service.take("a", 0)
    assert service.ask("b", 0) == Wait(PATIENCE)
    service.now = PATIENCE
    assert service.ask("b", 0) == End()
    service.leases.leave("b", "b", service.now, has_finished=True)
    service.leases.leave("a", "a", service.now)
    assert not service.leases.is_complete
    service.leases.join("c", "c")
    assert service.take("c", 0) == ([0, 1, 2], 1)


def test_two_live_clients_cannot_have_one_name():
    service = Service("next")
    service.leases.join("a", "first")
    with pytest.raises(UsageError, match="FEEDLINE_CLIENT"):
        service.leases.join("a", "second")


def test_a_client_restored_with_ack_state_gets_the_same_again_in_the_same_order():
    service = Service("state", elements=20)
    for name in "ab":
        service.leases.join(name, name)
    service.take("a", 0)
    service.leases.acknowledge("a", Position(0, 2))
    service.take("b", 0)
    service.take("a", 1)
    service.leases.leave("a", "a", service.now)
    service.take("b", 1)
    assert service.leases.join("a", "a again", Position(0, 2), Position(0, 2)) == 0
    assert service.take("a", 0) == ([0, 1, 2], 1)
    assert service.take("a", 1) == ([6, 7, 8], 2)
    assert service.take("a", 2) == ([12, 13, 14], 3)


def test_what_a_lost_client_had_not_acknowledged_goes_to_others_after_the_grace_and_only_that():
    service = Service("state", elements=6)
    for name in "ab":
        service.leases.join(name, name)
    service.take("a", 0)
    service.leases.acknowledge("a", Position(0, 2))
    service.leases.leave("a", "a", service.now)
    assert service.take("b", 0) == ([3, 4, 5], 1)
    assert service.ask("b", 1) == Wait(GRACE)
    service.now = GRACE
    assert service.take("b", 1) == ([2], 2)
    # It comes back after all, with its state: its first two rows are there to be dropped, and nothing else.
    service.leases.join("a", "a again", Position(0, 2), Position(0, 2))
    rows, after = service.take("a", 0)
    assert rows == [0, 1]
    assert service.ask("b", 2) == End()
    assert service.ask("a", after) == End()


def test_a_client_that_was_away_too_long_must_restart_from_its_state():
    service = Service("state", elements=6)
    for name in "ab":
        service.leases.join(name, name)
    service.take("a", 0)
    service.leases.leave("a", "a", service.now)
    service.take("b", 0)
    service.now = GRACE
    service.take("b", 1)
    with pytest.raises(UsageError, match="Restart it from the last state"):
        service.leases.acknowledge("a", Position(1, 0))
    with pytest.raises(UsageError, match="Restart it from the last state"):
        service.leases.join("a", "a again", Position(1, 0))
    assert service.leases.join("a", "a again", BEGINNING, BEGINNING) == 0
    service.leases.acknowledge("b", Position(2, 0))
    assert service.ask("a", 0) == End()


def test_the_last_two_states_can_be_loaded():
    """A trainer may die between taking a state and saving it."""
    service = Service("state", elements=30)
    service.leases.join("a", 1)
    states, after = [], 0
    for _ in range(3):
        _, after = service.take("a", after)
        states.append(Position(after, 0))
        service.leases.acknowledge("a", states[-1])
    service.leases.leave("a", 1, service.now)
    with pytest.raises(UsageError, match="last two states"):
        service.leases.join("a", 2, states[0], states[0])
    service.leases.join("a", 2, states[1], states[1])
    assert service.take("a", 2) == ([6, 7, 8], 3)
    # It has gone back: the state after that counts as not taken.
    service.leases.leave("a", 2, service.now)
    service.leases.join("a", 3)
    assert service.take("a", service.leases.join("b", 4))[0] == [6, 7, 8]


def test_an_old_state_is_refused_with_ack_next():
    service = Service("next")
    service.leases.join("a", 1)
    _, after = service.take("a", 0)
    service.take("a", after)
    service.leases.leave("a", 1, service.now)
    for old in (0, 1):
        with pytest.raises(UsageError, match='ack="state"'):
            service.leases.join("a", 2, Position(old, 0), Position(old, 0))


def test_a_client_without_a_state_goes_on_with_what_it_has_not_acknowledged():
    service = Service("state", elements=20)
    service.leases.join("a", 1)
    _, after = service.take("a", 0)
    service.take("a", after)
    service.leases.acknowledge("a", Position(0, 1))
    service.leases.leave("a", 1, service.now)
    after = service.leases.join("a", 2)
    got = []
    for _ in range(3):
        rows, after = service.take("a", after)
        got += rows
    assert got == [1, 2, 3, 4, 5, 6, 7, 8]


def test_a_live_client_keeps_its_block_when_the_service_restarts():
    service = Service("next", elements=6)
    for name in "ab":
        service.leases.join(name, name)
    service.take("a", 0)
    service.restart()
    service.leases.join("b", "b")
    assert service.take("b", 0) == ([3, 4, 5], 1)
    assert isinstance(service.ask("b", 1), Wait)
    service.leases.join("a", "a", Position(1, 0))
    assert service.ask("a", 1) == End()
    assert service.ask("b", 1) == End()


def test_a_client_that_finished_with_ack_state_holds_nobody_up():
    service = Service("state", elements=6)
    for name in "ab":
        service.leases.join(name, name)
    service.take("a", 0)
    service.take("b", 0)
    assert service.ask("a", 1) == Wait(PATIENCE)
    service.now = PATIENCE
    assert service.ask("a", 1) == End()
    service.leases.leave("a", "a", service.now, has_finished=True)
    service.now += GRACE
    assert service.ask("b", 1) == End()
    service.leases.leave("b", "b", service.now, has_finished=True)
    assert service.leases.is_complete
    # Until a state is taken, what it got can be had again.
    service.leases.join("a", "a again", BEGINNING, BEGINNING)
    assert service.take("a", 0) == ([0, 1, 2], 1)


class _Trainer:
    """A client that trains on what it gets, and may be restored from what it saved."""

    def __init__(self, name):
        self.name = name
        self.connection = None
        self.after = 0  # the number of the last delivery
        self.before = 0  # the number in front of the rows that it is at
        self.rows = []  # of the current delivery, the elements; trained up to `row`
        self.row = 0
        self.trained = []
        self.saved = (None, 0)  # a position, and how many of `trained` are before it
        self.taken = (None, 0)  # the same, of the last that was taken, saved or not
        self.is_at_end = False
        self.is_gone = False  # for good

    @property
    def position(self):
        if self.row == len(self.rows):
            return Position(self.after, 0)
        return Position(self.before, self.row)


class _History:
    """Random, but the same for the same number."""

    ack = ""
    ways = ("a_client_trains",) * 8 + (
        "a_client_begins",
        "time_passes",
        "the_service_restarts",
        "a_client_dies",
    )

    def __init__(self, number):
        self.rng = Random(number)
        failing = self.rng.sample(range(20), self.rng.randrange(3))
        self.service = Service(self.ack, self.rng.choice([0, 5, 10, 20]), failing)
        self.trainers = {}
        self.connections = 0
        self.may_repeat = Counter()
        self.a_client_begins()
        self.a_client_begins()

    def run(self):
        for _ in range(self.rng.randrange(30)):
            getattr(self, self.rng.choice(self.ways))()
            self.check_so_far()
        self.finish()
        self.check(Counter(element for one in self.trainers.values() for element in one.trained))

    def check_so_far(self):
        pass

    def connect(self, trainer, at=None, *, is_saved=False):
        self.connections += 1
        saved = at if is_saved else None
        number = self.service.leases.join(trainer.name, self.connections, at, saved)
        trainer.connection = self.connections
        return number

    def live(self):
        return [one for one in self.trainers.values() if one.connection is not None]

    def a_client_begins(self):
        if len(self.trainers) < 4:
            trainer = _Trainer(f"client {len(self.trainers)}")
            self.trainers[trainer.name] = trainer
            assert self.connect(trainer) == 0

    def a_client_trains(self):
        """On what is left of the delivery that it has, then on the first rows of the next."""
        reading = [one for one in self.live() if not one.is_at_end]
        if reading:
            trainer = self.rng.choice(reading)
            self.ask(trainer, self.rng.randrange(1, 7))
            trainer.row = self.rng.randint(0, len(trainer.rows))
            trainer.trained += trainer.rows[: trainer.row]

    def ask(self, trainer, limit=3):
        trainer.trained += trainer.rows[trainer.row :]
        trainer.before, trainer.rows, trainer.row = trainer.after, [], 0
        answer = self.service.ask(trainer.name, trainer.after, limit)
        if isinstance(answer, Delivery):
            trainer.rows, trainer.after = self.service.elements_of(answer.lease), answer.after
        trainer.is_at_end = isinstance(answer, End)
        return answer

    def time_passes(self):
        self.service.now += self.rng.choice([1.0, PATIENCE, GRACE])

    def the_service_restarts(self):
        self.service.restart(from_snapshot=self.rng.random() < 0.5)
        for trainer in self.live():
            self.connect(trainer, Position(trainer.after, 0))

    def leave(self, trainer):
        self.service.leases.leave(trainer.name, trainer.connection, self.service.now)
        trainer.connection = None

    def finish(self):
        """Let all that are there come to the end."""
        if not self.live():
            trainer = self.trainers["last"] = _Trainer("last")
            self.connect(trainer)
        for trainer in self.trainers.values():
            trainer.is_at_end = False
        for _ in range(1000):
            waiting = [one for one in self.live() if not one.is_at_end]
            if not waiting:
                return
            answers = [self.ask(one) for one in waiting]
            if all(isinstance(answer, Wait) for answer in answers):
                self.service.now = min(answer.until for answer in answers)
        raise AssertionError("it does not end")

    def check(self, trained):
        raise NotImplementedError


class AckNext(_History):
    """Nothing is lost. Only the block that a client had when it died may be given again."""

    ack = "next"

    def a_client_dies(self):
        if not self.live():
            return
        trainer = self.rng.choice(self.live())
        self.may_repeat.update(trainer.rows[: trainer.row])
        self.leave(trainer)
        trainer.rows, trainer.row = [], 0
        if self.rng.random() < 0.5:
            trainer.after = self.connect(trainer)
            trainer.is_at_end = False

    def check(self, trained):
        assert set(trained) == set(range(self.service.elements))
        repeated = trained - Counter(range(self.service.elements))
        assert not repeated - self.may_repeat, repeated


class AckState(_History):
    """Each element is in the training of exactly one client, as far as that was saved or is still alive."""

    ack = "state"

    ways = (*_History.ways, *("a_client_takes_a_state",) * 4)

    def a_client_takes_a_state(self):
        if not self.live():
            return
        trainer = self.rng.choice(self.live())
        self.service.leases.acknowledge(trainer.name, trainer.position)
        if self.rng.random() < 0.2:  # the trainer dies before it has written the state to its disk
            trainer.taken = trainer.position, len(trainer.trained)
            self.die(trainer, how="saved")
        else:
            trainer.saved = trainer.taken = trainer.position, len(trainer.trained)

    def a_client_dies(self):
        if self.live():
            how = self.rng.choice(["saved", "anew", "never"])
            self.die(self.rng.choice(self.live()), how, self.rng.choice([0.0, GRACE]))

    def die(self, trainer, how, seconds=0.0):
        self.leave(trainer)
        others = self.live()
        if seconds and others:
            self.service.now += seconds
            while isinstance(self.ask(others[0]), Delivery):
                pass
        trainer.rows, trainer.row = [], 0
        if how == "saved":
            position, count = trainer.saved
            del trainer.trained[count:]
            trainer.taken = trainer.saved
            if position is None:  # it saved nothing, and so begins anew; what was taken is not done either
                position = BEGINNING
            trainer.after = trainer.before = self.connect(trainer, position, is_saved=True)
            if position.rows:
                self.ask(trainer)
                trainer.row = position.rows
                assert trainer.rows[: trainer.row] == trainer.trained[-trainer.row :]
        else:
            # What it acknowledged counts, also if it did not come to write it down.
            del trainer.trained[trainer.taken[1] :]
            if how == "anew":
                trainer.after = trainer.before = self.connect(trainer)
                trainer.saved = trainer.taken = Position(trainer.after, 0), len(trainer.trained)
        trainer.is_at_end = False

    def check_so_far(self):
        trained = Counter(element for one in self.trainers.values() for element in one.trained)
        assert max(trained.values(), default=0) <= 1, trained

    def check(self, trained):
        assert trained == Counter(range(self.service.elements))


@pytest.mark.parametrize("history", [AckNext, AckState])
@pytest.mark.parametrize("hundred", range(10))
def test_no_history_loses_or_repeats_elements(history, hundred):
    for number in range(100 * hundred, 100 * hundred + 100):
        try:
            history(number).run()
        except BaseException as error:
            error.add_note(f"{history.__name__}({number})")
            raise
