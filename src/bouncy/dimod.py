"""`BouncySampler`: bouncy as a dimod sampler, for programs that use D-Wave's interface.

Importing this module imports dimod, which comes with the extra `dimod`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bouncy._sample import sample as run_sampler
from bouncy._validation import check_count, check_flag, check_positive, check_spins
from bouncy.formats.ising import check_bqm, from_bqm
from bouncy.results.run import Run
from bouncy.samplers import OF_SPINS, names
from bouncy.samplers.contract import Sampler

try:
    import dimod
except ImportError as error:
    raise ImportError("bouncy.dimod needs dimod: install it with  pip install 'bouncy[dimod]'") from error

_PARAMETERS = (
    "num_reads",
    "beta",
    "sampler",
    "chains",
    "warmup",
    "thin",
    "seed",
    "initial_states",
    "aggregate",
    "threads",
)


class BouncySampler(dimod.Sampler):  # type: ignore[misc]
    """A `dimod.Sampler` that draws from p ~ exp(-beta E).

    This is sampling at one temperature, not annealing: a state is drawn with its probability, and the state of lowest
    energy may never be. `sample_ising` and `sample_qubo` take the same keywords as `sample`.

    Examples
    --------
    >>> from bouncy.dimod import BouncySampler
    >>> found = BouncySampler().sample_ising({"a": -0.5}, {("a", "b"): -1.0}, num_reads=1000, beta=0.5, seed=0)
    >>> list(found.variables), int(found.record.num_occurrences.sum())
    (['a', 'b'], 1000)
    >>> found.first.sample, float(found.first.energy)
    ({'a': np.int8(1), 'b': np.int8(1)}, -1.5)
    """

    @property
    def parameters(self) -> dict[str, Any]:
        """Keywords of the sampling methods, each with its related properties."""
        return {name: ["samplers"] if name == "sampler" else [] for name in _PARAMETERS}

    @property
    def properties(self) -> dict[str, Any]:
        """A description, and the names that `sampler` accepts."""
        return {
            "description": "samples p ~ exp(-beta E) with the Binary Bouncy Particle Sampler and its relatives",
            "samplers": names(OF_SPINS),
        }

    def sample(
        self,
        bqm: dimod.BinaryQuadraticModel,
        *,
        num_reads: int = 100,
        beta: float = 1.0,
        sampler: str | Sampler = "bps-gaussian",
        chains: int = 4,
        warmup: int | None = None,
        thin: int = 1,
        seed: int | np.random.SeedSequence | None = None,
        initial_states: Any = None,
        aggregate: bool = True,
        threads: int | None = None,
        **kwargs: Any,
    ) -> dimod.SampleSet:
        """Draw `num_reads` states of a binary quadratic model, SPIN or BINARY.

        Parameters
        ----------
        bqm : dimod.BinaryQuadraticModel
        num_reads : int
            Number of states returned, from all chains together.
        beta : float
            Inverse temperature, finite and > 0.
        sampler, chains, warmup, thin, seed, threads
            As in `bouncy.sample`.
        initial_states : samples-like, optional
            Initial states: one for all chains or one per chain, with values of the model's vartype (a
            `dimod.SampleSet` is converted). Uniformly random by default.
        aggregate : bool
            Merge equal states into one row, counted in `num_occurrences`; otherwise rows are in the order of
            drawing, one from each chain in turn.
        **kwargs
            Unknown keywords are ignored, with dimod's warning.

        Returns
        -------
        dimod.SampleSet
            Variables in the order of the model, and their energies. `info` holds plain numbers and text: `mean` and
            `mean_se`, the expectation of each variable (in that order; for a BINARY model the probability of 1) and its
            standard error, from the whole path and not from the returned states alone; `ess` and `rhat`; `warnings`,
            sentences about results that are not reliable; and `beta`, `sampler` and `seed`.
        """
        self.remove_unknown_kwargs(**kwargs)
        check_bqm(bqm)
        num_reads, chains = check_count("num_reads", num_reads), check_count("chains", chains)
        beta, aggregate = check_positive("beta", beta), check_flag("aggregate", aggregate)
        if bqm.num_variables == 0:
            return _of_no_variables(bqm, num_reads, aggregate)
        run = run_sampler(
            from_bqm(bqm, 1.0 / beta),
            sampler,
            chains=chains,
            draws=-(-num_reads // chains),
            warmup=warmup,
            thin=thin,
            seed=seed,
            initial=None if initial_states is None else _starts(initial_states, bqm, chains),
            pairs="none",
            threads=threads,
            progress=False,
        )
        spins = run.draws.transpose(1, 0, 2).reshape(-1, run.target.d)[:num_reads]
        states = (_own_values(spins, bqm), list(bqm.variables))
        found = dimod.SampleSet.from_samples_bqm(states, bqm, info=_info(run, bqm, beta), sort_labels=False)
        return found.aggregate() if aggregate else found


def _own_values(spins: NDArray[np.int8], bqm: Any) -> NDArray[np.int8]:
    """Return spins as the values of the model's vartype, -1/+1 or 0/1."""
    return spins if bqm.vartype is dimod.SPIN else ((spins + 1) // 2).astype(np.int8)


def _info(run: Run, bqm: Any, beta: float) -> dict[str, Any]:
    """Return results and diagnostics of the run in plain Python types, so that the sample set can be saved."""
    binary = bqm.vartype is dimod.BINARY
    mean, error = ((1.0 + run.mean) / 2, run.mean_se / 2) if binary else (run.mean, run.mean_se)
    found = run.diagnostics
    return {
        "beta": beta,
        "sampler": run.sampler.name,
        "seed": run.seed if isinstance(run.seed, int) else repr(run.seed),
        "mean": mean.tolist(),
        "mean_se": error.tolist(),
        "ess": {name: value for name, value in found["ess"].items() if name != "sites"},
        "rhat": {name: value for name, value in found["rhat"].items() if name != "sites"},
        "warnings": list(found["warnings"]),
    }


def _starts(initial_states: Any, bqm: Any, chains: int) -> NDArray[np.int8]:
    """Return one state per chain as spins, (chains, d), in the order of the model's variables."""
    if isinstance(initial_states, dimod.SampleSet):
        initial_states = initial_states.change_vartype(bqm.vartype, inplace=False)
    values, labels = dimod.as_samples(initial_states)
    column = {label: k for k, label in enumerate(labels)}
    missing = [label for label in bqm.variables if label not in column]
    if missing:
        raise ValueError(f"initial_states has no value for the variable {missing[0]!r}")
    if values.shape[0] not in (1, chains):
        raise ValueError(f"initial_states has {values.shape[0]} states; expected 1, or one for each of {chains} chains")
    values = values[:, [column[label] for label in bqm.variables]]
    if bqm.vartype is dimod.BINARY:
        values = 2 * np.asarray(values, np.int64) - 1
    return np.repeat(check_spins(values, bqm.num_variables, "initial_states"), chains // values.shape[0], axis=0)


def _of_no_variables(bqm: Any, num_reads: int, aggregate: bool) -> Any:
    """Return the one state of a model without variables, whose energy is the offset."""
    rows = 1 if aggregate else num_reads
    return dimod.SampleSet.from_samples(
        (np.empty((rows, 0), np.int8), []),
        vartype=bqm.vartype,
        energy=np.full(rows, float(bqm.offset)),
        num_occurrences=np.full(rows, num_reads // rows),
    )
