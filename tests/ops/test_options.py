"""with_options: nothing changes, and wrong values are refused at once."""

from __future__ import annotations

import numpy as np
import pytest

from feedline import AUTOTUNE, Dataset, UsageError
from feedline.testing import check_errors, check_laws
from tests.ops.sources import every_source


@every_source
def test_elements_stay_the_same(source):
    found = check_laws(lambda ds: ds.with_options(workers=2, deterministic=True), source)
    assert len(found) == len(list(source))


def test_errors_come_in_their_places():
    check_errors(lambda ds: ds.with_options(max_open_files=4), Dataset.range(12))


def test_an_indexed_dataset_stays_indexed():
    assert Dataset.range(10).with_options(workers=1)[3:5][1] == 4


@pytest.mark.parametrize(
    ("given", "bytes_"),
    [
        (1, 1),
        (np.int64(4096), 4096),
        ("100", 100),
        ("4GB", 4 * 10**9),
        ("1.5 gb", 1500000000),
        ("2MiB", 2 << 20),
    ],
)
def test_a_memory_limit_is_a_number_of_bytes_or_a_text(given, bytes_):
    assert Dataset.range(1).with_options(memory_limit=given)._node.memory_limit == bytes_


@pytest.mark.parametrize(
    "wrong",
    [
        *({"max_open_files": value} for value in (0, -1, 1.5, "8", True)),
        *({"memory_limit": value} for value in (0, -5, "", "much", "-4GB", "4 XB", "0GB", 1.5, True)),
        *({"deterministic": value} for value in (1, "no", 0)),
        *({"workers": value} for value in (-2, 0.5, "2", False)),
    ],
    ids=str,
)
def test_wrong_values_are_refused(wrong):
    with pytest.raises(UsageError, match=rf"with_options\({next(iter(wrong))}="):
        Dataset.range(1).with_options(**wrong)


def test_right_values_are_kept():
    node = Dataset.range(1).with_options(max_open_files=64, deterministic=False, workers=AUTOTUNE)._node
    assert (node.max_open_files, node.deterministic, node.workers) == (64, False, -1)


def test_how_it_is_run_does_not_count_for_the_fingerprint():
    one, other = (Dataset.range(1).with_options(workers=n, max_open_files=n, memory_limit=n) for n in (1, 2))
    assert one.fingerprint() == other.fingerprint()
