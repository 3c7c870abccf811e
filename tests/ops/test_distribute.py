"""distribute: its arguments. What it gives is in tests/serve."""

from __future__ import annotations

import pytest

from feedline import Dataset, UsageError


@pytest.mark.parametrize("address", ["tcp:host", "unix:", "/a/path", 3, None, ""])
def test_an_address_that_is_none_is_refused(address):
    with pytest.raises(UsageError, match=r'give "unix:PATH"'):
        Dataset.range(3).distribute(address)


def test_ray_is_not_available_yet():
    with pytest.raises(UsageError, match=r'distribute\("ray"\): not available yet'):
        Dataset.range(3).distribute("ray")


@pytest.mark.parametrize(
    ("name", "value"), [("mode", "half"), ("ack", "never"), ("fallback", "remote"), ("job", ""), ("job", 3)]
)
def test_an_argument_that_cannot_be_meant_is_refused(name, value):
    with pytest.raises(UsageError, match=f"{name}="):
        Dataset.range(3).distribute("unix:/a/path", **{name: value})


def test_it_does_not_count_for_the_fingerprint():
    ds = Dataset.range(3).map(abs)
    assert ds.distribute("unix:/a/path").fingerprint() == ds.fingerprint()


def test_a_relative_path_is_that_of_the_moment(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ds = Dataset.range(3).distribute("unix:service")
    assert ds._node.address == f"unix:{tmp_path}/service"
