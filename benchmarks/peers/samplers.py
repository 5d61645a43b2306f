"""Who runs what: the samplers of each package, ours among them, on the models that they can be given."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from ladders import bridged
from peers.models import Model
from peers.protocol import Sampler, started

import bouncy
from bouncy.results.moments import means_recorded
from bouncy.results.tempered import ROWS, _log_z, _of_ladder

_ISING = ("dense-10", "dense-100", "dense-1000", "ring", "hot", "critical", "glass", "regular")
# Sweeps of an annealer's read, after which its start should be forgotten.
_READ = {"critical": 1000, "glass": 1000, "regular": 20}


class Entry(NamedTuple):
    """A row of the table on some models.

    Attributes
    ----------
    label : str
    package : str
        Name of its distribution.
    environment : str
        Name of its environment; "" is that of the benchmarks themselves.
    adapter : str
        File in this folder; "" for samplers of ours.
    models : tuple of str
    settings : dict
        Of the adapter, or for ours the `sampler`.
    chains : int
        Independent chains, or groups of independent reads.
    """

    label: str
    package: str
    environment: str
    adapter: str
    models: tuple[str, ...]
    settings: dict[str, Any]
    chains: int = 16


def _ours(label: str, models: tuple[str, ...], chains: int, **settings: Any) -> Entry:
    return Entry(f"bouncy, {label}", "bouncy", "", "", models, settings, chains)


def _reads(label: str, package: str, name: str, models: tuple[str, ...], **settings: Any) -> Entry:
    return Entry(label, package, name, f"{name}_peer.py", models, settings)


ENTRIES = (
    _ours("default", _ISING, 64, sampler=None),
    _ours("metropolis", _ISING, 64, sampler="metropolis"),
    _ours("tempered", ("dense-10", "glass"), 8, sampler="tempered"),
    _ours("swendsen-wang", ("critical",), 16, sampler="swendsen-wang"),
    _ours("wolff", ("critical",), 16, sampler="wolff"),
    _ours("default", ("selection",), 8, sampler=None),
    _ours("metropolis-mixed", ("selection",), 8, sampler="metropolis-mixed"),
    Entry("numba, plain Gibbs sweep", "numba", "", "numba_peer.py", _ISING, {}),
    _reads("dwave-samplers, reads", "dwave-samplers", "dwave", _ISING),
    _reads("dwave-samplers, chained reads", "dwave-samplers", "dwave", ("dense-10",), chained=True, sweeps=1),
    _reads("dwave-samplers, Metropolis", "dwave-samplers", "dwave", ("ring",), criterion="Metropolis"),
    _reads("openjij, reads", "openjij", "openjij", _ISING),
    _reads("openjij, chained reads", "openjij", "openjij", ("dense-10",), chained=True, sweeps=1),
    _reads("openjij, Swendsen-Wang", "openjij", "openjij", ("critical",), updater="swendsen wang", sweeps=100),
    Entry("thrml, block Gibbs", "thrml", "thrml", "thrml_peer.py", ("dense-10", "ring", *_ISING[4:]), {}, chains=64),
    Entry("hamon, tempering", "hamon", "hamon", "hamon_peer.py", ("glass",), {"chains": 8}),
    *(
        Entry(f"mcising, {label}", "mcising", "mcising", "mcising_peer.py", models, settings)
        for label, models, settings in (
            ("Metropolis", ("hot", "critical"), {"algorithm": "metropolis"}),
            ("Swendsen-Wang", ("critical",), {"algorithm": "swendsen_wang"}),
            ("Wolff", ("critical",), {"algorithm": "wolff", "interval": 3}),
        )
    ),
    Entry("PyMC, BinaryGibbsMetropolis", "pymc", "pymc", "pymc_peer.py", ("dense-10", "dense-100", "ring"), {}),
    Entry("NumPyro, DiscreteGibbs", "numpyro", "numpyro", "numpyro_peer.py", ("dense-10", "dense-100", "ring"), {}, 64),
    Entry("millipede, wTGS", "millipede-regression", "millipede", "millipede_peer.py", ("selection",), {"chains": 8}),
)
# What is not in the table, and why.
LEFT_OUT = {
    "thrml on dense models of 100 spins and more": "a block for each site, and 100 blocks compile for over a minute",
    "PyMC and NumPyro beyond 100 spins": "they compute log p in full for each proposal, O(d^2)",
    "BlackJAX": "it has no sampler of discrete variables; `make bench` compares it on densities",
}  # fmt: skip


@contextmanager
def running(entry: Entry, name: str, model: Model) -> Iterator[Sampler]:
    """Return the sampler of an entry, on a model, for the time of a `with` statement."""
    if not entry.adapter:
        yield ours(model, min(entry.chains, len(model.arrays.get("start", range(64)))), **entry.settings)
        return
    settings = dict(entry.settings)
    arrays = dict(model.arrays)
    if entry.package in ("dwave-samplers", "openjij"):
        settings.setdefault("sweeps", _READ.get(name, 100))
    if "start" in arrays:
        arrays["start"] = arrays["start"][: entry.chains]
    if entry.package == "hamon":
        ladder, _ = bouncy.Tempered().prepared(model.target, np.random.SeedSequence(0))
        settings |= {"ladder": list(ladder.ladder), "steps": ladder.sweeps_per_swap}
    with started(entry.environment, entry.adapter, model=arrays, **settings) as sampler:
        if entry.package == "hamon":
            sampler = _with_log_z(sampler, partial(_bridged, settings["ladder"], model))
        yield sampler


def _bridged(ladder: list[float], model: Model, seen: list[Any]) -> list[float]:
    free = model.target.d * np.log(2.0)
    return [free + bridged(chain, np.array(ladder)) for chain in np.concatenate(seen, axis=1)]


def ours(model: Model, chains: int, sampler: str | None) -> Sampler:
    """Return chains of `bouncy.sample` on one thread, which each call extends, everything that costs included."""
    quiet = {"threads": 1, "progress": False}
    start = model.arrays.get("start")
    initial = None if start is None or sampler == "tempered" else start[:chains]
    options = {"chains": chains, "initial": initial, "keep": "means", "pairs": "none"}
    run = bouncy.sample(model.target, sampler, draws=2, warmup=50, seed=5, **options, **quiet)
    rungs = run.sampler.rungs * run.sampler.sweeps_per_swap if sampler == "tempered" else 1

    def advance(draws: int) -> dict[str, Any]:
        nonlocal run
        before, known = time.process_time(), run
        run = run.extend(draws=draws, **quiet)
        seconds = time.process_time() - before
        quantities = [lambda batch: batch["mean"], means_recorded, *[_of_ladder] * (sampler == "tempered")]
        sums, old = ([one._data.sums().of_chains(quantity) for quantity in quantities] for one in (run, known))
        mean, weight, *ladder = (new - past for new, past in zip(sums, old, strict=True))
        log_prob = run.log_prob[:, known.draws_per_chain // run.trace_spacing :]
        attempts = draws * chains * model.target.d * rungs
        return {"mean": mean / weight, "log_prob": log_prob, "attempts": attempts, "seconds": seconds, "ladder": ladder}

    def log_z(ladders: list[Any]) -> list[float]:
        return [_log_z(one.reshape(ROWS, -1), run._offset)[-1] for one in np.sum(ladders, axis=0)[0]]

    return _with_log_z(advance, log_z) if sampler == "tempered" else advance


def _with_log_z(sampler: Sampler, log_z: Callable[[list[Any]], list[float]]) -> Sampler:
    """Return the same ladders with log Z of each, from all calls for equally many draws but the first, which compiles.

    Of hamon this is bridge sampling, as ours, from the log p that it records, without the time for it.
    """
    seen: list[Any] = []
    seconds, asked = 0.0, 0

    def advance(draws: int) -> dict[str, Any]:
        nonlocal seconds, asked
        found = sampler(draws=draws)
        if draws != asked:
            seen.clear()
            seconds, asked = 0.0, draws
            return found
        seen.append(found["ladder"])
        seconds += found["seconds"]
        return found | {"log_z": np.array(log_z(seen)), "log_z_seconds": seconds}

    return advance
