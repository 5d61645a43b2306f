"""What bugs are made of, sources that they are planted in, and node ids of tests."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Edit:
    """One replacement in a file below src/bouncy; `old` occurs there exactly once."""

    file: str
    old: str
    new: str


@dataclass(frozen=True)
class Bug:
    """A planted bug and the tests, as pytest node ids, of which at least one must fail."""

    number: str
    description: str
    edits: tuple[Edit, ...]
    tests: tuple[str, ...]


def law(test: str, case: str) -> str:
    """Return the node id of a test of the stationary law."""
    return f"tests/law/test_stationary.py::{test}[{case}]"


def engine(test: str, case: str = "") -> str:
    """Return the node id of a test of the general engine: `file::test` and the case, if there are several."""
    file, _, name = test.partition("::")
    return f"tests/piecewise/test_{file}.py::{name}" + (f"[{case}]" if case else "")


def storage(test: str) -> str:
    """Return the node id of a test of what is stored: `file::test`."""
    return f"tests/storage/test_{test.replace('::', '.py::', 1)}"


def goals(test: str) -> str:
    """Return the node id of a test of where runs end."""
    return f"tests/run/test_goals.py::{test}"


def controls(test: str) -> str:
    """Return the node id of a test of control variates."""
    return f"tests/results/test_controls.py::{test}"


def swaps(test: str) -> str:
    """Return the node id of a test of swaps."""
    return f"tests/samplers/test_swaps.py::{test}"


def constraints(test: str) -> str:
    """Return the node id of a test of restricted targets."""
    return f"tests/targets/test_constraints.py::{test}"


def tempered(test: str) -> str:
    """Return the node id of a test of tempered runs."""
    return f"tests/run/test_tempered.py::{test}"


FLIGHT = "piecewise/flight.py"
POTENTIAL = "piecewise/potential.py"
MOMENTS = "conformance::test_moments_are_those_of_quadrature"
LOG_PROB = "weights::test_log_prob_of_a_run_is_that_of_its_target"
SAME_EVENTS = "flight::test_events_are_those_of_the_paper"
TRIANGLE = "gaussian-frustrated-triangle-dense"
HMC_TRIANGLE = "hmc-gaussian-frustrated-triangle-dense"
HMC_EXPONENTIAL_TRIANGLE = "hmc-exponential-frustrated-triangle-dense"
