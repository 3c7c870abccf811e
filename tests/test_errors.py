"""The error tree: what each error is, what it says, and that it crosses a process."""

import pickle

import pytest

from feedline import errors

EVERY_ERROR = [
    errors.FeedlineError("something"),
    errors.UsageError("count=-2: count must be 0 or more."),
    errors.WrongKind("the predicate must return True or False, not int."),
    errors.NotRepeatable("the generator does not repeat the first 3 elements"),
    errors.CorruptRecord("the footer is cut off", path="a.tfrecord", record=3, offset=120, remedy="Mend it."),
    errors.NotTFRecord("this is a Parquet file", path="a.tfrecord", record=0, offset=0, remedy="Convert it."),
    errors.NotAnExample("the payload looks like JSON text", path="a.tfrecord", record=3, offset=120),
    errors.SchemaError("it is missing", path="a.tfrecord", record=3, offset=120, feature="label"),
    errors.WorkerError("the function failed"),
    errors.WorkerDied("killed by signal 9"),
    errors.ServiceError("there is no reader service"),
    errors.CacheError("the entry is damaged"),
    errors.WriteError(28, "No space left on device", "a.tfrecord"),
    errors.MissingDependency("pip install redis"),
]


def test_every_error_of_the_module_is_tried_here():
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)]
    public = {kind for kind in kinds if not kind.__name__.startswith("_")}
    assert {type(error) for error in EVERY_ERROR} == public


@pytest.mark.parametrize("error", EVERY_ERROR, ids=lambda error: type(error).__name__)
def test_an_error_survives_pickling(error):
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert vars(again) == vars(error)


@pytest.mark.parametrize(
    ("kind", "builtin"),
    [
        (errors.UsageError, ValueError),
        (errors.CorruptRecord, ValueError),
        (errors.SchemaError, ValueError),
        (errors.WriteError, OSError),
        (errors.MissingDependency, ImportError),
        (errors.WorkerDied, errors.WorkerError),
    ],
)
def test_code_that_knows_nothing_of_feedline_can_catch_its_errors(kind, builtin):
    assert issubclass(kind, builtin)
    assert issubclass(kind, errors.FeedlineError)


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ({}, "it broke."),
        ({"path": "a.tfrecord"}, "a.tfrecord: it broke."),
        ({"path": "a.tfrecord", "offset": 81920}, "a.tfrecord: byte 81,920 is corrupt: it broke."),
        ({"record": 1234}, "record 1,234 is corrupt: it broke."),
        (
            {"path": "a.tfrecord", "record": 3, "offset": 81920, "feature": "label"},
            "a.tfrecord: record 3 at byte 81,920 is corrupt: feature 'label': it broke.",
        ),
        ({"path": "a", "remedy": "Do this.\nOr that."}, "a: it broke.\n  Do this.\n  Or that."),
    ],
)
def test_a_message_says_what_is_known_of_the_place(place, message):
    assert str(errors.CorruptRecord("it broke", **place)) == message


def test_the_place_is_there_for_programs_too():
    error = errors.SchemaError("it is missing", path="a.tfrecord", record=3, offset=120, feature="label")
    assert (error.path, error.record, error.offset, error.feature) == ("a.tfrecord", 3, 120, "label")
