"""States of workers: a restored worker goes on with the same bytes, and states that none can have are refused.

Compiled code does not check its indices, so that a state with a number out of range must never reach it.
"""

import functools
import sys

import numpy as np
import pytest

import bouncy
from bouncy.samplers import as_sampler, names
from bouncy.targets.address_lanes import LinkedLanes
from bouncy.workers.contract import Plan
from bouncy.workers.spins import SpinWorker
from bouncy.workers.within import BlockWorker
from workers.cases import CASES, compare, new_worker, recording, same_bytes

every_case = pytest.mark.parametrize("case", CASES)


def _log_prob(s):
    return 0.3 * s[0] * s[1] - 0.2 * s[2]


def _graph():
    not_all = [[[1.0, 2.0], [1.5, 1.0]], [[1.0, 0.5], [1.0, 0.1]]]
    return bouncy.FactorGraph(
        [(("a", "b", "c"), not_all), (("c", "d"), [[1.0, 0.3], [2.0, 1.0]]), (("b",), [1.0, 2.0])]
    )


def _selection():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(20, 4))
    return bouncy.VariableSelection(X, X[:, 0] + rng.normal(size=20), prior="g")


# Targets with caches of their own, most of them behind an address.
TARGETS = {
    "factor graph": _graph,
    "variable selection": _selection,
    "polynomial": lambda: bouncy.Polynomial({(0, 1, 2): 1.2, (1, 2): -0.9, (0,): 0.7}, vartype="BINARY"),
    "spin polynomial": lambda: bouncy.Polynomial({(0, 1, 2): 0.4, (1, 2): -0.3}),
    "rbm": lambda: bouncy.RBM([[0.8, -0.5], [-0.3, 0.6]], b=[0.1, -0.2], c=[0.2, -0.1]).marginal(),
    "log_prob": lambda: bouncy.Custom(3, log_prob=_log_prob),
    "clamped": lambda: _selection().clamp({0: 1}),
    "powered": lambda: _selection().tempered(0.5),
}


@functools.cache
def worker_of(name):
    """Return a worker by the name of a case or of a target, with an open batch."""
    if name in CASES:
        worker = recording(name)
    else:
        target = TARGETS[name]()
        worker = SpinWorker(
            target, as_sampler(target, "bps-gaussian"), Plan(1, 4, "all"), np.random.SeedSequence(3), None
        )
    worker.advance(11)
    return worker


every_worker = pytest.mark.parametrize("name", [*CASES, *TARGETS])


@every_case
def test_restored_workers_go_on_with_the_same_bytes(case):
    """Catches a part of the state that is left out of a copy, in the worker itself and in another one."""
    worker, other = recording(case), new_worker(case, seed=99)
    worker.advance(13)
    state, outcomes = worker.state(), []
    for one in (worker, worker, other):
        if outcomes:
            one.restore(state)
        found = one.advance(40)
        outcomes.append((one.state(), found.batches[0]))
    for after, batches in outcomes[1:]:
        for ours, theirs in zip(batches, outcomes[0][1], strict=True):
            compare(ours, theirs, same_bytes)
        for name, array in outcomes[0][0].items():
            assert name.endswith("cpu_seconds") or after[name].tobytes() == array.tobytes(), name


def test_states_are_copies():
    """Catches a state that goes on with its worker."""
    worker = recording("bps-gaussian")
    state = worker.state()
    before = {name: array.copy() for name, array in state.items()}
    worker.advance(20)
    compare(state, before, same_bytes)


def refused(worker, state, name, place, value):
    """Return whether a state is refused when one of its numbers is another one; the worker must stay as it was.

    The worker is in that state, so that its caches are those of the spins.
    """
    bad = {key: array.copy() for key, array in state.items()}
    bad[name][place] = value
    try:
        worker.restore(bad)
    except ValueError:
        if not isinstance(worker, BlockWorker):
            compare(worker.state(), state, same_bytes)
        return True
    worker.restore(state)
    return False


def may_be_infinite(worker, name):
    """Return the places of an array at which plus and minus infinity are possible."""
    inner = getattr(worker, "_block", worker)
    part = name.removeprefix("block.")
    if part in ("clock.leg", "motion.leg"):
        moving = inner.clock if part == "clock.leg" else inner.motion
        module = sys.modules[type(moving).__module__]
        return [getattr(module, name) for name in ("T_REFRESH", "T_BOUNCE") if hasattr(module, name)], []
    size = worker.state()[name].size
    upper, lower = range(size // 2), range(size // 2, size)
    return {
        "motion.upper": (range(size), []),
        "motion.lower": ([], range(size)),
        "motion.refresh": ([0], []),
        "motion.points.due": (range(size), []),  # of coordinates that have no speed
        "recorder.extremes": (upper, lower),  # lowest and highest values, before there are any
        "view.inside.values": ([], [1]),  # log p of an impossible state
        "toll.swaps.before": ([], range(size)),
        "best_log_prob": ([], [0]),  # before there is one
    }.get(part, ([], []))


# Workers each of whose numbers is tried every time; those of the others are much like them.
TRIED = (
    "bps-gaussian",
    "hmc",
    "path-bps",
    "path-density",
    "block-spins",
    "ladder-walls",
    "flock-sparse",
    "factor graph",
)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in TRIED else pytest.mark.slow) for name in (*CASES, *TARGETS)]
)
def test_numbers_that_are_not_finite_are_refused(name):
    """Catches NaN, which no comparison ends, and infinite times, by which a clock never comes to an end."""
    worker = worker_of(name)
    state = worker.state()
    floats = {key: array for key, array in state.items() if array.dtype.kind == "f"}
    assert len(floats) > 5
    for key, array in floats.items():
        high, low = may_be_infinite(worker, key)
        for k, place in enumerate(np.ndindex(array.shape)):
            assert refused(worker, state, key, place, np.nan), (key, place)
            assert refused(worker, state, key, place, np.inf) or k in high, (key, place)
            assert refused(worker, state, key, place, -np.inf) or k in low, (key, place)


def parked(worker):
    """Return the names of caches that are computed anew before they are used: those of the reference of a ladder."""
    if not isinstance(getattr(worker, "view", None), LinkedLanes):
        return set()
    each = len(worker.view.caches) // len(worker.view.views)
    first = int(worker.view.parked[0]) * each
    return {f"view.caches.{k}" for k in range(first, first + each)}


@every_worker
def test_integers_out_of_range_are_refused(name):
    """Catches an index or a count beyond its array, by which compiled code would write to memory of others."""
    worker = worker_of(name)
    state = worker.state()
    whole = {key: array for key, array in state.items() if array.dtype.kind in "iu" and not key.endswith("rng")}
    assert len(whole) > 2
    for key, array in whole.items():
        if key in parked(worker):
            continue
        limits = np.iinfo(array.dtype)
        ends = [limits.max] if limits.min == 0 else [limits.min, limits.max]
        for place in list(np.ndindex(array.shape))[4 if key == "generator" else 0 :]:
            for value in ends:
                assert refused(worker, state, key, place, value), (key, place)


@every_worker
def test_generators_of_zeros_are_refused(name):
    """Catches a generator that returns zeros for ever: a direction drawn from them is never found."""
    worker = worker_of(name)
    state = worker.state()
    generators = [key for key in state if key.endswith(".rng")]
    assert generators or CASES[name][1] in ("gibbs", "metropolis")
    for key in generators:
        assert refused(worker, state, key, ..., 0), key


@pytest.mark.parametrize("sampler", sorted({*names()} - {"auto"}))
def test_one_beyond_the_last_site_is_refused(sampler):
    """Catches bounds that are off by one."""
    worker = worker_of(sampler)
    state, d = worker.state(), worker.s.size
    for key in ("clock.site", "clock.near", "clock.due", "clock.queue"):
        if key in state and state[key].dtype.kind == "u":
            assert refused(worker, state, key, 0, d)
            assert not refused(worker, state, key, 0, d - 1)


@pytest.mark.parametrize("value", [0, 2, -2])
def test_what_is_no_spin_is_refused(value):
    """Catches spins that are neither -1 nor 1."""
    worker = worker_of("bps-gaussian")
    assert refused(worker, worker.state(), "s", 1, value)


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("factor graph", "view.inside.at"),
        ("polynomial", "view.inside.zeros"),
        ("log_prob", "view.inside.trial"),
        ("clamped", "view.inside.full"),
        ("clamped", "view.inside.inner.inside.tally"),
        ("powered", "view.inside.inner.inside.tally"),
    ],
)
def test_caches_of_other_spins_are_refused(name, key):
    """Catches an index in range that belongs to other spins: the next flip would read or write beyond its table."""
    worker = worker_of(name)
    state = worker.state()
    for k in range(2):
        for change in (-1, 1):
            assert refused(worker, state, key, k, state[key][k] + change)


@pytest.mark.parametrize("key", ["slope", "shift", "tilt", "curvature", "lower", "upper"])
def test_copies_of_other_cells_are_refused(key):
    """Catches a particle that moves between the walls of a cell in which it is not."""
    worker = worker_of("path-slab")
    state = worker.state()
    assert refused(worker, state, f"motion.{key}", 0, np.nan_to_num(state[f"motion.{key}"][0], posinf=9.0) + 0.5)


@pytest.mark.parametrize("name", ["bps-gaussian", "path-bps", "block-bps"])
def test_other_names_shapes_and_dtypes_are_refused(name):
    """Catches a state of another worker, which would be copied in part."""
    worker = worker_of(name)
    state = worker.state()
    some = next(key for key, array in state.items() if array.ndim == 1 and array.size > 1)
    for bad, words in (
        ({key: array for key, array in state.items() if key != some}, "missing"),
        ({**state, "more": np.zeros(1)}, "unknown"),
        ({**state, some: state[some][:-1]}, "expected"),
        ({**state, some: state[some].astype(np.float32)}, "expected"),
    ):
        with pytest.raises(ValueError, match=words):
            worker.restore(bad)


@pytest.mark.parametrize("sweeps", [[-1, 0], [5, 6], [5, -1]])
def test_impossible_counts_of_sweeps_are_refused(sweeps):
    """Catches a recording that began after its end."""
    worker = worker_of("bps-gaussian")
    with pytest.raises(ValueError, match="sweeps, recorded from"):
        worker.restore({**worker.state(), "sweeps": np.array(sweeps)})
