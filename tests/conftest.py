"""Seeds and hypothesis profiles: every run is the same run unless BOUNCY_TEST_SEED asks for another one."""

from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import settings

SEED_VARIABLE = "BOUNCY_TEST_SEED"
DEFAULT_SEED = 20171102

settings.register_profile("fixed", derandomize=True, deadline=None)
settings.register_profile("seeded", deadline=None)
settings.load_profile("seeded" if SEED_VARIABLE in os.environ else "fixed")


def base_seed() -> int:
    """Return the seed that all statistical tests start from: BOUNCY_TEST_SEED, or a fixed one."""
    text = os.environ.get(SEED_VARIABLE, str(DEFAULT_SEED))
    if not text.isdecimal():
        raise pytest.UsageError(f"{SEED_VARIABLE} is {text!r}; expected a non-negative integer, for example 1")
    return int(text)


def pytest_report_header() -> str:
    """Print the seed, so that a failure under another one can be repeated."""
    return f"{SEED_VARIABLE}={base_seed()}"


@pytest.fixture
def seed() -> int:
    """Return the base seed; tests spawn their generators from it."""
    return base_seed()


@pytest.fixture
def rng(seed: int) -> np.random.Generator:
    """Return a generator seeded by the base seed."""
    return np.random.default_rng(seed)
