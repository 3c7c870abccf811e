"""shard() from the environment."""

import json

import pytest

from feedline import Dataset, UsageError

CLUSTER = {"chief": ["a:1"], "worker": ["b:1", "c:1"], "ps": ["d:1"]}


@pytest.fixture(autouse=True)
def _nothing_set(monkeypatch):
    for name in ("TF_CONFIG", "RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)


def set_task(monkeypatch, kind, index, cluster=CLUSTER):
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}}))


def shard():
    return list(Dataset.range(10).shard())


@pytest.mark.parametrize(("kind", "index", "first"), [("chief", 0, 0), ("worker", 0, 1), ("worker", 1, 2)])
def test_tf_config_tells_the_shard_and_the_chief_is_the_first(kind, index, first, monkeypatch):
    set_task(monkeypatch, kind, index)
    assert shard() == list(range(first, 10, 3))


def test_rank_and_world_size_tell_the_shard(monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert shard() == [1, 5, 9]


def test_where_both_tell_they_must_agree(monkeypatch):
    set_task(monkeypatch, "worker", 1)
    monkeypatch.setenv("RANK", "2")
    monkeypatch.setenv("WORLD_SIZE", "3")
    assert shard() == [2, 5, 8]
    monkeypatch.setenv("RANK", "1")
    with pytest.raises(UsageError, match="TF_CONFIG says 2 of 3, RANK and WORLD_SIZE says 1 of 3"):
        shard()


def test_nothing_that_tells_is_an_error():
    with pytest.raises(UsageError, match=r"(?s)neither TF_CONFIG nor RANK.*shard\(num_shards, index\)"):
        shard()


@pytest.mark.parametrize(
    "config", ["", "{}", '{"cluster": {}, "task": {}}', '{"task": {"type": "worker", "index": 0}}']
)
def test_a_tf_config_of_one_process_tells_nothing(config, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", config)
    with pytest.raises(UsageError, match="nothing says"):
        shard()


@pytest.mark.parametrize("config", ["{", "[]", '{"cluster": {"worker": ["a"]}, "task": {"type": "worker"}}'])
def test_a_broken_tf_config_is_an_error(config, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", config)
    with pytest.raises(UsageError, match="TF_CONFIG is not what TensorFlow expects"):
        shard()


@pytest.mark.parametrize(("kind", "index"), [("ps", 0), ("evaluator", 0), ("worker", 2)])
def test_a_process_that_does_not_train_has_no_shard(kind, index, monkeypatch):
    set_task(monkeypatch, kind, index)
    with pytest.raises(UsageError, match=f"this process is {kind} {index}"):
        shard()


@pytest.mark.parametrize(
    ("rank", "size"), [("0", None), (None, "2"), ("2", "2"), ("-1", "2"), ("x", "2"), ("0", "0")]
)
def test_a_broken_rank_is_an_error(rank, size, monkeypatch):
    for name, value in (("RANK", rank), ("WORLD_SIZE", size)):
        if value is not None:
            monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match=f"RANK={rank} and WORLD_SIZE={size}"):
        shard()


@pytest.mark.parametrize("arguments", [{"num_shards": 3}, {"index": 0}])
def test_half_of_the_arguments_is_an_error(arguments):
    with pytest.raises(UsageError, match="give num_shards and index, or neither"):
        Dataset.range(3).shard(**arguments)
