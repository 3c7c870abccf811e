"""A folder of folders of images: each folder in it is a class, each image a record.

image: the bytes of the file as they are, for tf.io.decode_image. class: the name of its folder. label: the
number of the class, in the order of the names, as Keras's image_dataset_from_directory counts them.

The images are mixed, the same way each time: class after class, every shard would hold few of the classes,
and no shuffle buffer could mend that. Only their names are all in memory.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import numpy as np

from feedline.column import Bytes
from feedline.convert.batch import BATCH_BYTES, BATCH_ROWS, Batch, Column, refusal

SUFFIXES = ()
IMAGES = (".bmp", ".gif", ".jpeg", ".jpg", ".png")

_BEGINNINGS = (b"BM", b"GIF8", b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n")


def read(paths: Sequence[str], infer_from: int) -> Iterator[Batch]:
    folders = [(path, name) for path in paths for name in _classes(path)]
    label_of = {name: label for label, name in enumerate(sorted({name for _, name in folders}))}
    images: list[tuple[str, str]] = []
    others = 0
    for path, name in folders:
        found, beside = _images(os.path.join(path, name))
        images += [(image, name) for image in found]
        others += beside
    yield Batch(paths[0], {}, 0, 0, passed_over=others)
    Random(0).shuffle(images)
    for contents, names in _in_batches(images):
        columns: dict[str, Column] = {
            "image": Bytes.of(contents),
            "label": np.array([label_of[name] for name in names]),
            "class": Bytes.of([os.fsencode(name) for name in names]),
        }
        yield Batch(paths[0], columns, len(names), sum(map(len, contents)))


def _in_batches(images: list[tuple[str, str]]) -> Iterator[tuple[list[bytes], list[str]]]:
    """Their contents and classes."""
    contents: list[bytes] = []
    names: list[str] = []
    size = 0
    for image, name in images:
        contents.append(_content(image))
        names.append(name)
        size += len(contents[-1])
        if len(names) == BATCH_ROWS or size >= BATCH_BYTES:
            yield contents, names
            contents, names, size = [], [], 0
    if names:
        yield contents, names


def _content(image: str) -> bytes:
    content = Path(image).read_bytes()
    if not content.startswith(_BEGINNINGS):
        raise refusal(
            image,
            "it does not begin as a JPEG, PNG, GIF or BMP does" if content else "it is empty",
            remedy="Remove it, or save it again as one of these.",
        )
    return content


def _classes(path: str) -> list[str]:
    """The names of the folders."""
    entries = _visible(path)
    folders = [entry.name for entry in entries if entry.is_dir()]
    if not folders or any(_is_image(entry) for entry in entries):
        raise refusal(
            path,
            "images lie beside the folders of the classes" if folders else "it holds no folders of images",
            remedy="Put the images of each class into a folder of its own:  cats/1.jpg, dogs/1.jpg",
        )
    return folders


def _images(folder: str) -> tuple[list[str], int]:
    """Their paths, and how many files beside them are none."""
    entries = _visible(folder)
    for entry in entries:
        if entry.is_dir():
            raise refusal(
                entry.path,
                "it is a folder within the folder of a class",
                remedy=f"If the classes are in {folder}, convert that; else move its images up.",
            )
    images = [entry.path for entry in entries if _is_image(entry)]
    if not images:  # and its name would count among those of the classes
        raise refusal(
            folder, f"it holds no {', '.join(IMAGES)}", remedy="Move it elsewhere, or put some into it."
        )
    return images, len(entries) - len(images)


def _is_image(entry: os.DirEntry[str]) -> bool:
    # A link that leads nowhere is one, and cannot be read; a pipe is none, and would be waited for.
    return entry.name.lower().endswith(IMAGES) and (entry.is_file() or entry.is_symlink())


def _visible(path: str) -> list[os.DirEntry[str]]:
    with os.scandir(path) as entries:
        return sorted(
            (entry for entry in entries if not entry.name.startswith(".")), key=lambda entry: entry.name
        )
