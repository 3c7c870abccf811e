"""`to_keras()` and ResumeCallback on the backend that KERAS_BACKEND names; run by test_keras.py.

What a model learns from a dataset must be what it learns from the same arrays.
"""

import gc
import signal
import subprocess
import sys
import time
import warnings
from contextlib import suppress
from functools import cache
from pathlib import Path

import keras
import numpy as np
import pytest

import feedline as fl

pytestmark = [
    # Keras says so of every tf.data.Dataset.
    pytest.mark.filterwarnings("ignore:`shuffle=True` was passed"),
    pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy:DeprecationWarning"),
]

ROWS, BATCH, STEPS = 60, 10, 6
X = np.random.default_rng(0).normal(size=(ROWS, 4)).astype("float32")
Y = (X[:, 0] > 0).astype("int32")
WEIGHTS = np.linspace(0, 1, ROWS).astype("float32")
CLASS_WEIGHT = {0: 1.0, 1: 5.0}


@pytest.fixture(autouse=True)
def _a_model_for_each_test():
    compiled_model.cache_clear()


@cache
def compiled_model():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.1, momentum=0.9), loss)
    # To look at the shapes, Keras would take an iteration of the data, and with it the first shuffled order.
    model.train_on_batch(X[:BATCH], Y[:BATCH])
    return model


def new_model():
    """A model that has learned nothing yet. It is one and the same, because compiling it takes a second."""
    model = compiled_model()
    model.set_weights([np.full(w.shape, 0.1, "float32") for w in model.get_weights()])
    for variable in model.optimizer.variables:
        if variable.path.endswith(("iteration", "momentum")):
            variable.assign(variable * 0)
    return model


def batches(*arrays):
    return fl.Dataset.from_tensor_slices(arrays or (X, Y)).batch(BATCH)


def losses(data, **options):
    return new_model().fit(data, verbose=0, **options).history


def expected(**options):
    return new_model().fit(X, Y, batch_size=BATCH, shuffle=False, verbose=0, **options).history


def assert_close(found, wanted):
    assert found.keys() == wanted.keys()
    for name in wanted:
        np.testing.assert_allclose(found[name], wanted[name], rtol=1e-5)


def of_every_length():
    return {
        "known": (batches(), {}),
        "unknown": (batches().filter(lambda x, y: True), {}),
        "infinite": (batches().repeat(), {"steps_per_epoch": STEPS}),
    }


@pytest.mark.parametrize("length", ["known", "unknown", "infinite"])
@pytest.mark.parametrize("options", [{}, {"class_weight": CLASS_WEIGHT}], ids=["plain", "class_weight"])
def test_fit_learns_what_it_learns_from_arrays(length, options):
    dataset, steps = of_every_length()[length]
    assert_close(losses(dataset.to_keras(), epochs=3, **options, **steps), expected(epochs=3, **options))


def test_sample_weights_are_the_third_of_a_tuple():
    found = losses(batches(X, Y, WEIGHTS).to_keras(), epochs=2)
    assert_close(found, expected(epochs=2, sample_weight=WEIGHTS))


def test_class_weight_beside_sample_weights_is_refused():
    with pytest.raises(Exception, match=r"sample.weight"):
        losses(batches(X, Y, WEIGHTS).to_keras(), class_weight=CLASS_WEIGHT)


@pytest.mark.parametrize("length", ["known", "unknown"])
def test_validation_data_may_be_the_training_data_and_has_no_class_weight(length):
    data = of_every_length()[length][0].to_keras()
    found = losses(data, epochs=3, class_weight=CLASS_WEIGHT, validation_data=data)
    assert_close(found, expected(epochs=3, class_weight=CLASS_WEIGHT, validation_data=(X, Y)))


def test_steps_per_epoch_go_through_the_data_over_several_epochs():
    found = losses(batches().to_keras(), epochs=2, steps_per_epoch=3)
    model = new_model()
    halves = [
        model.fit(X[h], Y[h], batch_size=BATCH, shuffle=False, verbose=0).history["loss"][0]
        for h in (slice(0, 30), slice(30, 60))
    ]
    np.testing.assert_allclose(found["loss"], halves, rtol=1e-5)


def test_every_epoch_is_shuffled_anew_and_has_every_row():
    seen: list = []

    def note(x, y):
        seen.append(y.tolist())
        return x, y * 0

    dataset = fl.Dataset.from_tensor_slices((X, np.arange(ROWS))).shuffle(seed=3).batch(BATCH).map(note)
    model = new_model()
    data = dataset.to_keras()
    seen.clear()  # what was read for the spec
    model.fit(data, epochs=3, verbose=0)
    rows = np.concatenate(seen[-3 * STEPS :]).reshape(3, ROWS)
    for epoch in rows:
        assert sorted(epoch) == list(range(ROWS))
    assert len({tuple(epoch) for epoch in rows}) == 3


def test_a_model_that_is_not_built_is_built_from_the_data_which_then_begins_at_its_beginning():
    model = keras.Sequential([keras.layers.Dense(2, kernel_initializer="ones")])
    model.compile(keras.optimizers.SGD(0.0), "mse")
    found = model.fit(batches(X, X[:, :2]).to_keras(), verbose=0).history["loss"]
    wanted = np.mean((X.sum(1, keepdims=True) - X[:, :2]) ** 2)
    np.testing.assert_allclose(found, [wanted], rtol=1e-5)


def test_evaluate_and_predict_take_it_too():
    model = new_model()
    np.testing.assert_allclose(
        model.evaluate(batches().to_keras(), verbose=0), model.evaluate(X, Y, verbose=0), rtol=1e-5
    )
    inputs = fl.Dataset.from_tensor_slices(X).batch(BATCH)
    np.testing.assert_allclose(
        model.predict(inputs.to_keras(), verbose=0), model.predict(X, verbose=0), rtol=1e-5
    )


@pytest.mark.parametrize(
    "pass_it",
    [
        lambda model, dataset: model.fit(dataset),
        lambda model, dataset: model.evaluate(dataset),
        lambda model, dataset: model.predict(dataset),
        lambda model, dataset: model.fit(X, Y, validation_data=dataset, verbose=0),
        lambda model, dataset: model.fit({"a": dataset}, Y),
    ],
    ids=["fit", "evaluate", "predict", "validation_data", "in a dict"],
)
def test_keras_given_the_dataset_itself_names_to_keras(pass_it):
    with pytest.raises(fl.UsageError, match=r"to_keras\(\)"):
        pass_it(new_model(), batches())
    compiled_model.cache_clear()  # on JAX, Keras leaves it without its variables


def some_of(epoch_rows=45):
    """Batches whose number is not known: of rows that a filter leaves."""
    rows = fl.Dataset.from_tensor_slices((X, Y, np.arange(ROWS))).filter(lambda x, y, row: row < epoch_rows)
    return rows.map(lambda x, y, row: (x, y)).batch(BATCH)


def test_no_epoch_of_unknown_length_ends_with_a_warning():
    model, data = new_model(), some_of().to_keras()
    filters = list(warnings.filters)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model.fit(data, epochs=3, verbose=0, validation_data=some_of().to_keras())
        model.fit(data, epochs=2, verbose=0, validation_data=data)
        model.evaluate(data, verbose=0)
        outputs = model.predict(some_of().to_keras(), verbose=0)
    assert not [one for one in told if "ran out of data" in str(one.message)]
    assert len(outputs) == 45
    assert warnings.filters == filters


def test_a_later_epoch_may_be_shorter_than_the_first():
    kept = iter([60] * 60 + [30] * 60)
    rows = fl.Dataset.from_tensor_slices((X, Y, np.arange(ROWS))).filter(
        lambda x, y, row: row < next(kept, 30)
    )
    data = rows.map(lambda x, y, row: (x, y)).batch(BATCH).to_keras()
    new_model().fit(data, epochs=3, verbose=0)


def test_fewer_batches_than_steps_per_epoch_are_still_warned_of():
    data = some_of().to_keras()
    with pytest.warns(UserWarning, match="ran out of data"):
        new_model().fit(data, steps_per_epoch=2 * STEPS, verbose=0)


def test_a_training_that_is_stopped_leaves_no_filter_behind():
    filters = list(warnings.filters)
    for stop in range(STEPS):
        with pytest.raises(Stop):
            new_model().fit(some_of().to_keras(), epochs=2, verbose=0, callbacks=[StopAfter(stop)])
        compiled_model.cache_clear()  # on JAX, Keras leaves it without its variables
    gc.collect()
    assert warnings.filters == filters


def test_inputs_may_be_a_dict():
    a, b = keras.Input((4,), name="a"), keras.Input((4,), name="b")
    model = keras.Model({"a": a, "b": b}, keras.layers.Dense(1)(keras.layers.Add()([a, b])))
    model.compile("sgd", "mse")
    model.fit(batches({"a": X, "b": X}, X[:, :1]).to_keras(), verbose=0)


@pytest.mark.skipif(keras.backend.backend() == "tensorflow", reason="TensorFlow has strings")
def test_strings_are_refused_by_name():
    if keras.backend.backend() == "torch":
        pytest.skip("torch's datasets may hold strings, which Keras refuses itself")
    with pytest.raises(fl.UsageError, match=r"element\[1\] is strings"):
        losses(batches(X, np.array([b"a"] * ROWS)).to_keras())


# Resuming


class Stop(Exception):
    pass


class StopAfter(keras.callbacks.Callback):
    def __init__(self, steps):
        super().__init__()
        self.left = steps

    def on_train_batch_begin(self, batch, logs=None):
        if self.left == 0:
            raise Stop
        self.left -= 1


def train(path, dataset, stop_after=None, epochs=3, save_freq=1, **options):
    """The weights, and how many epochs were run."""
    model = new_model()
    callbacks = [fl.keras.ResumeCallback(path, dataset, save_freq=save_freq)]
    if stop_after is not None:
        callbacks.append(StopAfter(stop_after))
    try:
        history = model.fit(dataset.to_keras(), epochs=epochs, verbose=0, callbacks=callbacks, **options)
    except Stop:
        compiled_model.cache_clear()  # on JAX, Keras leaves it without its variables
        raise
    return model.get_weights(), len(history.epoch)


def shuffled(length):
    dataset = fl.Dataset.from_tensor_slices((X, Y)).shuffle(seed=5)
    if length == "unknown":
        return dataset.filter(lambda x, y: True).batch(BATCH)
    return dataset.repeat().batch(BATCH) if length == "infinite" else dataset.batch(BATCH)


CASES = {
    "known": {},
    "infinite": {"steps_per_epoch": STEPS},
    "known, in steps": {"steps_per_epoch": 4},  # 6 batches: the second epoch has two
    "validated": {"validation_data": True},
}


@pytest.mark.filterwarnings("ignore:Your input ran out of data")  # in steps of 4, 6 batches do
@pytest.mark.parametrize("case", CASES)
def test_a_resumed_training_ends_with_the_same_weights_wherever_it_stopped(case, tmp_path):
    options = dict(CASES[case])

    def run(path, stop_after=None, **more):
        dataset = shuffled(case.partition(",")[0])
        if "validation_data" in options:
            more["validation_data"] = batches().to_keras()
        steps = {name: value for name, value in options.items() if name == "steps_per_epoch"}
        return train(path, dataset, stop_after, **steps, **more)

    whole, _ = run(tmp_path / "whole")
    for stop, save_freq in [(0, 1), (4, 1), (5, 2), (6, 1), (6, 4), (7, 2), (13, 2)]:
        path = tmp_path / f"{stop}-{save_freq}"
        with suppress(Stop):
            run(path, stop, save_freq=save_freq)
        resumed, _ = run(path)
        for one, other in zip(resumed, whole, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6, err_msg=f"{stop}, {save_freq}")


def test_a_resumed_training_counts_as_many_steps(tmp_path):
    steps = []
    for stop in (None, 4):
        with suppress(Stop):
            train(tmp_path / str(stop), shuffled("known"), stop)
        train(tmp_path / str(stop), shuffled("known"))
        steps.append(int(compiled_model().optimizer.iterations))
    assert steps == [3 * STEPS, 3 * STEPS]


def test_a_dataset_of_unknown_length_is_resumed_at_the_beginning_of_an_epoch(tmp_path):
    whole, _ = train(tmp_path / "whole", shuffled("unknown"))
    with pytest.raises(Stop):
        train(tmp_path / "b", shuffled("unknown"), stop_after=STEPS + 2)
    resumed, epochs = train(tmp_path / "b", shuffled("unknown"))
    assert epochs == 2
    for one, other in zip(resumed, whole, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


def test_it_can_stop_again_and_again(tmp_path):
    whole, _ = train(tmp_path / "whole", shuffled("known"))
    for _ in range(3 * STEPS):
        try:
            resumed, _ = train(tmp_path / "again", shuffled("known"), stop_after=2)
            break
        except Stop:
            pass
    for one, other in zip(resumed, whole, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


def test_a_training_that_ended_is_not_run_again_but_goes_on_with_more_epochs(tmp_path):
    weights, _ = train(tmp_path, shuffled("known"))
    again, epochs = train(tmp_path, shuffled("known"))
    assert epochs == 0
    np.testing.assert_array_equal(again[0], weights[0])
    assert train(tmp_path, shuffled("known"), epochs=5)[1] == 2


def test_one_checkpoint_is_kept_and_what_a_killed_process_left_is_no_hindrance(tmp_path):
    (tmp_path / ".unfinished").mkdir(parents=True)
    (tmp_path / ".unfinished" / "model.weights.h5").write_bytes(b"half")
    train(tmp_path, shuffled("known"))
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("name", ["model.weights.h5", "position.json"])
def test_a_damaged_checkpoint_is_named(name, tmp_path):
    train(tmp_path, shuffled("known"))
    (checkpoint,) = tmp_path.iterdir()
    (checkpoint / name).write_bytes((checkpoint / name).read_bytes()[:50])
    with pytest.raises(fl.UsageError, match=f"(?s)cannot go on from {checkpoint}.*remove it"):
        train(tmp_path, shuffled("known"), epochs=5)


def test_a_checkpoint_of_another_pipeline_is_named(tmp_path):
    train(tmp_path, shuffled("known"))
    with pytest.raises(fl.UsageError, match=f"(?s)cannot go on from {tmp_path}.*another pipeline"):
        train(tmp_path, batches(), epochs=5)


def test_feedline_keras_can_be_imported_from():
    from feedline.keras import ResumeCallback

    assert ResumeCallback is fl.keras.ResumeCallback


def test_the_callback_says_what_it_cannot_follow(tmp_path):
    dataset = batches()
    with pytest.raises(fl.UsageError, match="not fed by this dataset"):
        new_model().fit(
            batches().to_keras(), verbose=0, callbacks=[fl.keras.ResumeCallback(tmp_path, dataset)]
        )
    compiled_model.cache_clear()
    with pytest.raises(fl.UsageError, match="repeat"):
        train(tmp_path, shuffled("unknown"), steps_per_epoch=3)
    if keras.backend.backend() != "torch":  # where Keras refuses it itself
        several = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
        several.compile("sgd", "mse", steps_per_execution=2)
        with pytest.raises(fl.UsageError, match="steps_per_execution"):
            several.fit(dataset.to_keras(), verbose=0, callbacks=[fl.keras.ResumeCallback(tmp_path, dataset)])
    with pytest.raises(fl.UsageError, match="save_freq=0"):
        fl.keras.ResumeCallback(tmp_path, dataset, save_freq=0)


KILLED = """
import sys
sys.path.insert(0, {root!r})
from tests.adapt.on_each_backend import *
weights, _ = train(sys.argv[1], shuffled("known"), epochs=40)
np.save(sys.argv[2], np.concatenate([w.ravel() for w in weights]))
"""


def newest(path):
    numbers = [int(one.name) for one in path.iterdir() if one.name.isdecimal()] if path.is_dir() else []
    return max(numbers, default=-1)


@pytest.mark.skipif(keras.backend.backend() != "jax", reason="the files are the same on every backend")
def test_weights_and_position_agree_whenever_the_process_is_killed(tmp_path):
    path = tmp_path / "run"
    script = KILLED.format(root=str(Path(__file__).parents[2]))
    command = [sys.executable, "-W", "ignore", "-c", script, str(path), str(tmp_path / "weights.npy")]
    for kill in range(4):
        process = subprocess.Popen(command)
        if kill == 3:
            assert process.wait() == 0
            break
        before = newest(path)
        while newest(path) < before + 20:
            assert process.poll() is None
            time.sleep(0.001)
        time.sleep(0.0017 * kill)  # saving takes a few milliseconds, and this goes through them
        process.send_signal(signal.SIGKILL)
        process.wait()
    whole, _ = train(tmp_path / "whole", shuffled("known"), epochs=40, save_freq=1000)
    found = np.load(tmp_path / "weights.npy")
    np.testing.assert_allclose(found, np.concatenate([w.ravel() for w in whole]), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("given", [{"y": Y}, {"sample_weight": WEIGHTS}], ids=["y", "sample_weight"])
def test_what_belongs_into_the_elements_is_refused_beside_them(given):
    with pytest.raises(ValueError, match=rf"\b{next(iter(given))}"):
        new_model().fit(batches().to_keras(), verbose=0, **given)
