"""infer_features: what reads files, as their writer tells it, or as a survey of their records finds it."""

from __future__ import annotations

from feedline.errors import SchemaError
from feedline.records.common_features import common_features
from feedline.records.feature_texts import Known
from feedline.records.features import Feature, SequenceFeatures
from feedline.records.paths import Files, resolve
from feedline.records.surveying import from_survey, survey
from feedline.records.telling import Told


def infer_features(
    files: Files, *, compression: str | None = "auto"
) -> dict[str, Feature] | SequenceFeatures:
    """The `features` that read every record of the files, with the dtypes and shapes that were written.

    feedline's writers tell them in the manifest of a set, or in the hidden sidecar of a file. Other files are
    all read: a key that every record has with the same number of values is a FixedLenFeature, any other one a
    VarLenFeature; records of tf.train.SequenceExample give SequenceFeatures. SchemaError if files disagree.

    >>> import numpy as np
    >>> with feedline.TFRecordWriter("images.tfrecord") as writer:
    ...     writer.write({"image": np.zeros((32, 32, 3), np.uint8), "label": np.uint8(7)})
    >>> infer_features("images.tfrecord")
    {'image': RawFeature((32, 32, 3), 'uint8'), 'label': ListFeature((), 'uint8')}
    """
    paths = resolve(files)
    told = Told()
    known: Known | None = None
    first, last = "", None
    silent = []
    for path in paths:
        features = told.of(path)
        if features is None:
            silent.append(path)
        elif features is not last:  # that of the same manifest
            known, first, last = _both(known, first, features, path), first or path, features
    if silent:
        result = survey(silent, compression=compression)
        if known is None:
            return from_survey(result)
        if result["records"]:
            found = from_survey(result)
            if isinstance(found, SequenceFeatures):
                raise _disagree(first, silent[0], "one holds Examples, the other SequenceExamples", None)
            known = _both(known, first, dict(found), silent[0])
    assert known is not None  # resolve gives one path at least
    wanted = {key: feature for key, feature in known.items() if feature is not None}
    if not wanted:
        raise SchemaError(
            "no record has a feature with a value, so there are none to infer",
            path=first,
            remedy="To get the raw bytes:  leave `features` out",
        )
    return wanted


def _both(known: Known | None, first: str, features: Known, path: str) -> Known:
    if known is None:
        return features
    try:
        return common_features(known, features)
    except SchemaError as error:
        raise _disagree(first, path, error.what, error.feature) from None


def _disagree(first: str, path: str, what: str, feature: str | None) -> SchemaError:
    return SchemaError(
        f"the features of {first} and {path} differ: {what}",
        feature=feature,
        remedy="Read the files apart, or pass `features` with what they have in common.",
    )
