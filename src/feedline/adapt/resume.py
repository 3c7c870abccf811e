"""ResumeCallback: a training that was killed goes on where it was, in the middle of an epoch too.

What is saved is a directory, `PATH/<number>`, with the weights of model and optimizer and the position in the
data. It is written under another name, brought to the disk, and renamed: so at any moment the newest one is
whole, and what is in it belongs together. The one before it is removed only then.

Metrics begin anew when an epoch is resumed, and other callbacks know nothing of it.
"""

from __future__ import annotations

import json
import os
import shutil
import warnings
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from feedline.adapt.frameworks import need
from feedline.adapt.progress import progress_of
from feedline.errors import UsageError
from feedline.graph import UNKNOWN

if TYPE_CHECKING:
    from feedline.dataset import Dataset

_WEIGHTS, _POSITION, _UNFINISHED = "model.weights.h5", "position.json", ".unfinished"


@cache
def callback_class() -> Any:
    keras = need("keras", "ResumeCallback", "keras")
    return type("ResumeCallback", (_Resume, keras.callbacks.Callback), {"__doc__": _Resume.__doc__})


class _Resume:
    """Save the model and the position in `dataset` while `fit` runs; go on from there when it runs again.

    `dataset` is the one whose `to_keras()` is fitted. It is saved at the end of each epoch, and within one
    after each `save_freq` batches. Where the dataset's length is not known before, only at the end of epochs.

    The model must be built before it is fitted. A training that came to its end is not run again: give
    more epochs, or another path.
    """

    model: Any
    params: dict[str, Any]

    def __init__(self, path: str | os.PathLike[str], dataset: Dataset, save_freq: int = 500) -> None:
        super().__init__()
        if not isinstance(save_freq, int) or save_freq < 1:
            raise UsageError(
                f"ResumeCallback(save_freq={save_freq!r}): give a number of batches, 1 at least."
            )
        self._checkpoints = Checkpoints(Path(path))
        self._dataset = dataset
        self._progress = progress_of(dataset)
        self._save_freq = save_freq
        self._epoch = 0
        self._step_before = 0  # steps of this epoch that were made before it was resumed
        self._count: int | None = None  # the optimizer's, of steps, after the last one of a resumed epoch
        self._unsaved = 0
        self._silence: warnings.catch_warnings[None] | None = None

    def on_train_begin(self, logs: Any = None) -> None:
        model = self.model
        self._check(model)
        self._progress.start()
        found = self._checkpoints.newest()
        model._initial_epoch = self._count = None
        if found is None:
            return
        try:
            self._go_on_from(found)
        except (
            OSError,
            ValueError,
            KeyError,
            TypeError,
        ) as error:  # what h5py, Keras, json and feedline raise
            raise UsageError(
                f"ResumeCallback: cannot go on from {found}: {error}\n"
                "  It is damaged, or of another model or pipeline.\n"
                "  To begin anew, give another path or remove it."
            ) from error

    def _go_on_from(self, checkpoint: Path) -> None:
        model = self.model
        if not model.optimizer.built:
            model.optimizer.build(model.trainable_variables)
        model.load_weights(checkpoint / _WEIGHTS)
        saved = json.loads((checkpoint / _POSITION).read_text())
        epoch, step, steps = saved["epoch"], saved["step"], self.params["steps"]
        if step and step >= steps:
            epoch, step = epoch + 1, 0
        model._initial_epoch = epoch
        self._step_before = step
        self._progress.resume(self._dataset, saved["data"], steps - step if step else None)

    def _check(self, model: Any) -> None:
        if not model.built:
            raise UsageError(
                "ResumeCallback: the model is not built, so it has no weights to resume.\n"
                "  Give it an Input layer, or call model.build(...) before model.fit(...)."
            )
        if model.steps_per_execution != 1:
            raise UsageError(
                f"ResumeCallback: steps_per_execution={model.steps_per_execution} hides which batches were "
                "trained on.\n  Compile the model with steps_per_execution=1."
            )
        if self._dataset.cardinality() == UNKNOWN and self.params["steps"] is not None:
            raise UsageError(
                "ResumeCallback: fit(steps_per_epoch=...) cannot be resumed with a dataset whose length is "
                "not known.\n  Make it endless:  dataset.repeat()"
            )

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._epoch = epoch
        if self._step_before:
            # The rest of an epoch is shorter than Keras expects, and it would warn that the data ran out.
            self._silence = warnings.catch_warnings()
            self._silence.__enter__()
            warnings.filterwarnings("ignore", message="Your input ran out of data")

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if not self._progress.trained():
            raise UsageError(
                "ResumeCallback(path, dataset): fit(...) is not fed by this dataset.\n"
                "  Give it the one whose to_keras() is fitted: the same object."
            )
        step = self._step_before + batch + 1
        if self._step_before and step == self.params["steps"] and _steps_are_graphs():
            self._count = int(self.model.optimizer.iterations)
        self._unsaved += 1
        if self._unsaved >= self._save_freq and self._dataset.cardinality() != UNKNOWN:
            self._save(self._epoch, step)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._step_before = 0
        if self._count is not None:
            # Keras asked for a batch more than there were, and the optimizer counted it.
            self.model.optimizer.iterations.assign(self._count)
            self._count = None
        if self._silence is not None:
            self._silence.__exit__(None, None, None)
            self._silence = None
        self._save(epoch + 1, 0)

    def on_test_begin(self, logs: Any = None) -> None:
        self._progress.followed = False

    def on_test_end(self, logs: Any = None) -> None:
        self._progress.followed = True

    def on_train_end(self, logs: Any = None) -> None:
        self._progress.stop()
        self.model._initial_epoch = None

    def _save(self, epoch: int, step: int) -> None:
        self._unsaved = 0
        self._progress.note_saved()
        with self._checkpoints.new() as directory:
            self.model.save_weights(directory / _WEIGHTS)
            position = {"epoch": epoch, "step": step, "data": self._progress.position}
            (directory / _POSITION).write_text(json.dumps(position))


def _steps_are_graphs() -> bool:
    """As on TensorFlow: what needs no data in a step, like counting it, is done although no batch came."""
    return bool(import_module("keras").backend.backend() == "tensorflow")


class Checkpoints:
    """Numbered directories in `path`, of which the last is the one that counts."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def newest(self) -> Path | None:
        whole = self._whole()
        return whole[-1] if whole else None

    def _whole(self) -> list[Path]:
        found = self._path.iterdir() if self._path.is_dir() else ()
        return sorted((one for one in found if one.name.isdecimal()), key=lambda one: int(one.name))

    def new(self) -> _NewCheckpoint:
        before = self._whole()
        number = int(before[-1].name) + 1 if before else 0
        return _NewCheckpoint(self._path / str(number), before)


class _NewCheckpoint:
    """A directory to fill, which is there under its name only once it is left without an error."""

    def __init__(self, path: Path, before: list[Path]) -> None:
        self._path = path
        self._before = before
        self._unfinished = path.with_name(_UNFINISHED)

    def __enter__(self) -> Path:
        if self._unfinished.exists():
            shutil.rmtree(self._unfinished)  # of a process that was killed
        self._unfinished.mkdir(parents=True)
        return self._unfinished

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            shutil.rmtree(self._unfinished)
            return
        for written in (*self._unfinished.iterdir(), self._unfinished):
            _to_disk(written)
        self._unfinished.rename(self._path)
        _to_disk(self._path.parent)
        for one in self._before:
            shutil.rmtree(one)


def _to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
