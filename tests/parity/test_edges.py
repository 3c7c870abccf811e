"""Arguments at their edges (0, negative, huge) and inputs without an end: all is as in tf.data."""

from __future__ import annotations

import numpy as np
import pytest

from tests.tfdata import both, both_refuse

TAKEN = {
    "a batch larger than the dataset": lambda D: D.range(5).batch(2**40),
    "no whole batch": lambda D: D.range(5).batch(9, drop_remainder=True),
    "batches without end": lambda D: D.range(3).repeat().batch(2),
    "a buffer of one": lambda D: D.range(5).shuffle(1),
    "no buffer": lambda D: D.range(5).prefetch(0),
    "windows with gaps": lambda D: D.range(7).window(2, shift=5).flat_map(lambda one: one),
    "whole windows with strides": lambda D: (
        D.range(5).window(3, shift=2, stride=2, drop_remainder=True).flat_map(lambda one: one)
    ),
    "more shards than elements": lambda D: D.range(3).shard(5, 4),
    "a shard without end": lambda D: D.range(3).repeat().shard(2, 1),
    "a range that goes nowhere": lambda D: D.range(0, -3),
    "numbers below zero": lambda D: D.range(3).enumerate(-5),
    "an end that never comes": lambda D: D.range(2).repeat().concatenate(D.range(2)),
    "zip of two without end": lambda D: D.zip(D.range(2).repeat(), D.range(3).repeat()),
    "zip with one of unknown length": lambda D: D.zip(D.range(2).repeat(), D.range(3).filter(lambda x: True)),
    "nothing of an unknown length": lambda D: D.range(5).filter(lambda x: True).take(0),
    "no round of an unknown length": lambda D: D.range(5).filter(lambda x: True).repeat(0),
    "no round without end": lambda D: D.range(5).repeat().repeat(0),
    "rows of whole batches": lambda D: D.range(6).batch(2, drop_remainder=True).unbatch(),
    "a scan without end": lambda D: D.range(3).repeat().scan(np.int64(0), lambda s, x: (s + x, s)),
    "a prefix of one without end": lambda D: D.range(3).repeat().take_while(lambda x: x < 2),
    "turns longer than the datasets": lambda D: D.range(3).interleave(lambda i: D.range(i, i + 5), 2, 2**40),
    "a counter that falls": lambda D: D.counter(3, -2),
    "choices that end": lambda D: D.choose_from_datasets([D.range(2), D.range(9)], D.range(2).repeat(4)),
    "choices that pass over": lambda D: D.choose_from_datasets(
        [D.range(2), D.range(9)], D.range(2).repeat(4), stop_on_empty_dataset=False
    ),
    "one to sample": lambda D: D.sample_from_datasets([D.range(3)]),
    "None beside an array": lambda D: D.range(2).map(lambda x: (x, None)),
}

REFUSED = {
    "a batch of 0": lambda D: D.range(5).batch(0),
    "a batch of None": lambda D: D.range(5).batch(None),
    "a buffer of 0 to shuffle": lambda D: D.range(5).shuffle(0),
    "a prefetch of -2": lambda D: D.range(5).prefetch(-2),
    "a window of 0": lambda D: D.range(5).window(0),
    "a shift of 0": lambda D: D.range(5).window(2, shift=0),
    "0 shards": lambda D: D.range(5).shard(0, 0),
    "shard -1": lambda D: D.range(5).shard(2, -1),
    "a step of 0": lambda D: D.range(0, 5, 0),
    "a range of nothing": lambda D: D.range(),
    "half a take": lambda D: D.range(3).take(1.5),
    "no call at a time": lambda D: D.range(2).map(lambda x: x, num_parallel_calls=0),
    "no dataset to choose from": lambda D: D.choose_from_datasets([], D.range(2)),
    "more weights than datasets": lambda D: D.sample_from_datasets([D.range(2)], [0.5, 0.5]),
    "slices of different lengths": lambda D: D.from_tensor_slices(([1], [1, 2])),
}


@pytest.mark.parametrize("pipeline", TAKEN.values(), ids=list(TAKEN))
def test_edges_that_tf_data_takes(pipeline):
    both(pipeline, most=12)


@pytest.mark.parametrize("pipeline", REFUSED.values(), ids=list(REFUSED))
def test_edges_that_tf_data_refuses(pipeline):
    both_refuse(pipeline)
