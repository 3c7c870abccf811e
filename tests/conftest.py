"""Settings for the whole suite."""

import os
from random import Random

import hypothesis
import pytest
from hypothesis import core
from hypothesis.internal.conjecture import providers

from tests.kept_cases import KeptCases

# TensorFlow tells of its CPU features on every import; only its errors are of interest here.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

# Neither profile has a deadline or fails because drawing is slow: a shared machine stalls now and then.
TIMELESS = {
    "parent": hypothesis.settings.get_profile("default"),
    "deadline": None,
    "suppress_health_check": [hypothesis.HealthCheck.too_slow],
}
hypothesis.settings.register_profile("fixed", database=KeptCases(), **TIMELESS)
hypothesis.settings.register_profile("explore", database=KeptCases(is_exploring=True), **TIMELESS)


def pytest_configure(config):
    is_exploring = config.getoption("explore") is not None
    hypothesis.settings.load_profile("explore" if is_exploring else "fixed")
    if not is_exploring:
        # Hypothesis also draws constants that it finds in the modules imported so far. They depend on which
        # tests ran before in the same process.
        providers._get_local_constants = providers.Constants


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item):
    # `make test` draws the same cases every time. Not by derandomize=True or --hypothesis-seed: with these,
    # hypothesis does not look at the kept cases. It is pinned, so that everyone gets the same draws.
    core.threadlocal._hypothesis_global_random = Random(item.config.getoption("explore") or 0)
