"""Seeds, hypothesis profiles and the order of tests.

Every run uses the same seed unless BOUNCY_TEST_SEED sets another one.
"""

from __future__ import annotations

import ctypes
import gc
import os
import re
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

from bouncy._compile import keep_kernels_of

# Loops compiled from the helpers take minutes in a run of all tests.
keep_kernels_of("helpers", Path(__file__).resolve().parent / "helpers")

# Compiling leaves hundreds of thousands of objects behind: to look at them as often as Python does by default takes a
# tenth of the time of all tests.
gc.set_threshold(50_000, 20, 100)

# Have glibc keep memory that is freed, up to 1 GiB: to get large arrays anew from the system takes up to a tenth more.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
if hasattr(_libc := ctypes.CDLL(None) if sys.platform == "linux" else None, "mallopt"):
    _libc.mallopt(_M_TRIM_THRESHOLD, 1 << 30)
    _libc.mallopt(_M_MMAP_THRESHOLD, 1 << 25)

SEED_VARIABLE = "BOUNCY_TEST_SEED"
DEFAULT_SEED = 20171102

# Other seeds bring other examples, and more of them.
settings.register_profile("fixed", derandomize=True, deadline=None, max_examples=40)
settings.register_profile("seeded", deadline=None)
settings.load_profile("seeded" if SEED_VARIABLE in os.environ else "fixed")


def base_seed() -> int:
    """Return the seed of all statistical tests: BOUNCY_TEST_SEED, or a fixed one."""
    text = os.environ.get(SEED_VARIABLE, str(DEFAULT_SEED))
    if not text.isdecimal():
        raise pytest.UsageError(f"{SEED_VARIABLE} is {text!r}; expected a non-negative integer, for example 1")
    return int(text)


def pytest_report_header() -> str:
    """Print the seed, so that a failure under another one can be repeated."""
    return f"{SEED_VARIABLE}={base_seed()}"


def pytest_configure() -> None:
    """Restore Ctrl-C: a shell starts background jobs with SIGINT ignored, and their children inherit that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _no_figure_is_left_open():
    """Close all figures of a test: matplotlib warns when many are open."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


# Compiling takes longer than most tests. Tests that need the same loops, or share replicates, run in one process, one
# after the other: in two processes the loops would be compiled, and the replicates drawn, twice. Long tests come first,
# tests that need only loops of other tests last.
_FIRST = (
    "cli/test_cli",
    "law",
    "targets",
    "run",
    "clocks",
    "samplers",
    "piecewise",
    "workers",
    "storage",
    "test_examples",
    "test_compile",
    "experiments",
)
_LAST = ("cli/test_reproduce",)
# Tests of laws, whose loops differ by the toll alone: that of HMC, that of Gibbs, and the budget of all others.
_OF_LAWS = re.compile(r"tests/law/|::test_every_sampler_keeps")
_TOLL = re.compile(r"hmc|gibbs")
# Tests that take so long that compiling twice is nothing to them.
_APART = ("law/test_precision", "piecewise/test_coverage", "storage/test_damage.py::test_all_odd_numbers")
# Folders whose tests need the same loops.
_TOGETHER = ("run", "piecewise", "workers")
# A file that needs the loops of another folder.
_GUESTS = {"run/test_paths.py": "piecewise"}
# Tests of ladders, and of densities, which have loops of their own.
_LADDER = re.compile(
    r"test_tempered|test_ladder|samplers/test_auto|test_logz|(workers|storage)/.*\[tempered|ladder-walls"
)
_DENSITY = re.compile(r"test_densit|check_density|test_rays|[\[-](thinned )?density[] -]")


def _group(test: str) -> str:
    """Return the group of a test, given by its node id: the loops that it needs, or the file that it is in."""
    path, _, name = test.partition("::")
    file = path.removeprefix("tests/")
    if test.removeprefix("tests/").startswith(_APART):
        return test
    if _OF_LAWS.search(test):
        toll = _TOLL.search(name)
        return toll.group() if toll else "budget"
    if _LADDER.search(test):
        return "ladder"
    if _DENSITY.search(test):
        return "density"
    if file in _GUESTS:
        return _GUESTS[file]
    folder = file.partition("/")[0]
    return folder if folder in _TOGETHER else file


def _rank(item: pytest.Item) -> int:
    """Return the rank of a test in the order of tests; a group runs when its first test does."""
    file = item.nodeid.removeprefix("tests/")
    if file.startswith(_LAST):
        return len(_FIRST) + 1
    return next((k for k, prefix in enumerate(_FIRST) if file.startswith(prefix)), len(_FIRST))


# Cases that are left to `make test-long`, by file: they have loops of their own, which take long to compile, and run
# the same lines as another case of the same test does.
_LATER = {
    "clocks/test_clocks": r"\[billiard-\w+-(1|2|7|5000)\b|stops_leave.*-[17]\b|hang.*huge|bounds.*exponential-1000",
    "helpers/test_statistics": r"power|false_alarms|coarse",
    "law/test_ergodic": r"random-dense|\[hmc-(torus|flat)|whole_turns",
    "law/test_stationary": r"(one|two|five)-site|-sparse|hmc-exponential|of_billiard|\[(gibbs|metropolis)-random",
    "piecewise/test_auto": r"gibbs[01]\]",
    "piecewise/test_density": r"test_starts|(raises|negative|nan)-True|scale_stays|by_hand|needs_a_start",
    "piecewise/test_conformance": r"-gibbs-random\]|gaussian-(spins|trunc)|density|slab-positive|(lasso|mixed.*)-bps",
    "piecewise/test_flight": r"sparse",
    "piecewise/test_hmc": r"dense_and_sparse|reversal.*-30\]",
    "piecewise/test_metropolis": r"oblique|polytope|finds_|few_moves|correlations|raises|rounded",
    "piecewise/test_truncated_gaussian": r"sparse|chain_on_the_positive_orthant",
    "piecewise/test_weights": r"-gibbs-random\]|gaussian-(spins|truncated)|metropolis",
    "run/test_executors": r"\[pool-(?!draws)|other_errors|broken_pool|shuffled-(?!draws|path)|keeps_few_models",
    "run/test_goals": r"kept_to\[(True-4|False-1)",
    "run/test_paths": r"without_warmup",
    "run/test_sample": r"threads\[(hmc-exponential|bps-exponential|metropolis-mixed)|a_run_of_hours",
    "run/test_tempered": r"custom-log-prob|finds_rungs",
    "samplers/test_hmc": r"twin\[(gaussian-[27]|exponential)",
    "storage/test_damage": r"neither_crash_nor_hang|hmc-view",
    "storage/test_resume": r"interrupted\[(density|hmc|custom|polynomial|edges|metropolis|gibbs)",
    "storage/test_run_file": r"full_disk.*nc",
    "targets/test_conformance": r"law_of_every_target.*-(?!mrf)\w+(-\w+)*\]|_tempered\[0\.[05]",
    "targets/test_custom": r"however_it_is_given",
    "targets/test_one_file": r"is_one_file",
    "test_random": r"53_fair_bits",
    "workers/test_ladder": r"walls|cached|function_that_fails|product_law_stays\[(dense-metropolis|sparse-gibbs)",
    "workers/test_slices": r"\[(block-(hmc|gibbs)|ladder-walls|path-density|hmc-exponential|gibbs-random)",
}


def _is_later(test: str) -> bool:
    file, _, name = test.removeprefix("tests/").partition(".py::")
    return file in _LATER and re.search(_LATER[file], name) is not None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is left to another time, and sort the files by rank; within a file the order stays."""
    for item in items:
        if _is_later(item.nodeid):
            item.add_marker("slow")
    items.sort(key=_rank)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Distribute groups of tests, in their order, unless `--dist` sets another way."""
    if config.getoption("dist") != "load":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class ByGroup(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return _group(nodeid)

    config.option.loadscopereorder = False  # by the number of tests, which does not tell how long they take
    return ByGroup(config, log)


@pytest.fixture
def seed() -> int:
    """Return the base seed; tests spawn their generators from it."""
    return base_seed()


@pytest.fixture
def rng(seed: int) -> np.random.Generator:
    """Return a generator seeded by the base seed."""
    return np.random.default_rng(seed)
