"""Random chains of steps over random data: tf.data and feedline give the same, element by element.

Of each chain, feedline's blocks have a random size, and it is resumed from a state taken at a random place.
"""

from __future__ import annotations

import gc
import json
from itertools import islice

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

tf = pytest.importorskip("tensorflow", reason="TensorFlow, the oracle, is not installed")

from feedline import UNKNOWN_CARDINALITY  # noqa: E402
from feedline.testing import assert_same, in_blocks  # noqa: E402
from tests.parity.steps import OURS, SOURCES, STEPS, THEIRS, Elements  # noqa: E402
from tests.tfdata import ERROR, check_spec, numpy_elements  # noqa: E402

MOST = 40  # elements that are compared
LONGEST = 5  # steps
NOT_COMPUTED = {"skip", "shard", "zip"}  # what they pass over may fail in tf.data, and is not computed here
BY_TRACING = {"unbatch", "rebatch"}  # whose cardinality tf.data may know from the shapes that it traced
# Of each source. tf.data takes some 20 ms for one on a quiet machine, and many times that on a busy one.
CHAINS = 100


@pytest.fixture(autouse=True, scope="module")
def little_to_collect():
    """TensorFlow leaves much garbage in cycles, and each collection would go through all of its modules."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def until_error(elements):
    try:
        for element in elements:  # noqa: UP028  (`yield from` would close the iterator, too)
            yield element
    except Exception:
        yield ERROR


def failed(elements):
    return bool(elements) and elements[-1] is ERROR


@pytest.mark.timeout(1800)  # hypothesis would take a time-out for a failure, and go on to shrink it
@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
@given(data=st.data())
# Not the phase in which hypothesis explains: it traces every line, which takes minutes under TensorFlow.
@settings(max_examples=CHAINS, phases=set(Phase) - {Phase.explain})
def test_random_chains_give_what_tf_data_gives(source, data):
    arguments = data.draw(source.arguments, source.name)
    ours, theirs = source.make(OURS, arguments), source.make(THEIRS, arguments)
    names = set()
    for _ in range(data.draw(st.integers(1, LONGEST), "steps")):
        elements = Elements(theirs)
        step = data.draw(st.sampled_from([step for step in STEPS if step.fits(elements)]), "step")
        arguments = data.draw(step.arguments_for(elements), step.name)
        ours, theirs = step.apply(OURS, ours, arguments), step.apply(THEIRS, theirs, arguments)
        names.add(step.name)
    wanted = list(islice(until_error(numpy_elements(theirs)), MOST))
    most = MOST
    if failed(wanted) and names & NOT_COMPUTED:
        wanted.pop()
        most = len(wanted)
    rows = data.draw(st.sampled_from([1, 2, 3, 1024]), "block rows")
    taken = data.draw(st.integers(0, len(wanted)), "resumed after")
    with in_blocks(ours, rows) as iterator:
        assert_same(islice(until_error(iterator), most), wanted, "of the chain")
    with in_blocks(ours, rows) as iterator:
        begun = list(islice(until_error(iterator), taken))
        state = json.loads(json.dumps(iterator.state_dict()))
    with in_blocks(ours, rows) as iterator:
        iterator.load_state_dict(state)
        rest = [] if failed(begun) else list(islice(until_error(iterator), most - taken))
        assert_same(begun + rest, wanted, f"resumed after {taken}")
    vague = bool(names & BY_TRACING)
    counts = {int(theirs.cardinality()), UNKNOWN_CARDINALITY} if vague else {int(theirs.cardinality())}
    assert ours.cardinality() in counts
    if wanted and not failed(wanted):
        check_spec(ours.element_spec, theirs.element_spec, sizes=not vague)
