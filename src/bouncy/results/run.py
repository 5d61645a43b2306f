"""The result of a run, whatever was sampled."""

from __future__ import annotations

import copy
import os
from abc import ABC, abstractmethod
from collections.abc import Hashable
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from bouncy._validation import check_count
from bouncy.results.batches import Estimate, student_quantile
from bouncy.results.moments import Sums
from bouncy.run.workers import run_chains
from bouncy.targets.contract import TargetError

if TYPE_CHECKING:
    import xarray

    from bouncy.results.summary import Summary


class Run(ABC):
    """Chains of a sampler on a target, and what they found: what runs on all kinds of targets have in common.

    Attributes
    ----------
    draws : ndarray, shape (chain, draw, d)
        States on a regular grid of the sampler's time; no draws with `keep="means"`.
    log_prob : ndarray, shape (chain, draw)
        Unnormalised log-probability of each draw; kept even when the states are not.
    mean, mean_se : ndarray, shape (d,)
        Expectations and their standard errors, from the whole path.
    flips_per_site : ndarray of int64, shape (d,)
        Accepted flips of each site, or crossings of each continuous variable, of all chains together.
    parameters : dict
        What was updated beside the target (`bouncy.Within`), each of shape (chain, draw, ...).
    diagnostics : dict
        Counts, effective sample sizes, R-hat, z-scores of the event rates, and warnings in plain words.
    seed : int or SeedSequence
        What to pass as `seed` to get the same bytes again.
    """

    # Estimates that `interval` knows, and all that is computed from the chains and kept.
    _estimates: ClassVar[tuple[str, ...]]
    _computed: ClassVar[tuple[str, ...]]

    draws: NDArray[Any]
    log_prob: NDArray[np.float64]

    def __init__(self, target: Any, sampler: Any, chains: list[Any], options: dict[str, Any]) -> None:
        self.target = target
        self.sampler = sampler
        self.seed = options["seed"]
        self.warmup = options["warmup"]
        self.thin: int = options["thin"]
        self._options = options
        self._keep = options["keep"]
        self._threads = options["threads"]
        self._progress = options["progress"]
        self._chains = chains
        self._warmup_seconds = sum(chain.cpu_seconds for chain in chains)
        self.parameters: dict[str, NDArray[np.float64]] = {}
        for name, trace in self._new_traces(0).items():
            setattr(self, name, trace)
        self._hand_out_parameters(0)

    @abstractmethod
    def _new_traces(self, draws: int) -> dict[str, NDArray[Any]]:
        """Return arrays of zeros, (chain, draw, ...), for what is kept of each draw, by name."""

    @property
    @abstractmethod
    def _mean(self) -> Estimate:
        """The estimate that `mean` is, whose batches all estimates share."""

    @abstractmethod
    def _diagnose(self) -> dict[str, Any]:
        """Return the diagnostics."""

    @abstractmethod
    def _summary(self) -> Summary:
        """Return the table of estimates and diagnostics."""

    @abstractmethod
    def _to_arviz(self) -> xarray.DataTree:
        """Return the draws in the layout of ArviZ."""

    def extend(self, draws: int) -> Self:
        """Continue the same chains for more draws, in place, and return the run.

        The result has the same bytes as that of one run of the total length. A run that is interrupted while it is
        extended stays as it was.
        """
        draws = check_count("draws", draws)
        before = [chain.state() for chain in self._chains]
        kept, parameters = self._traces(), dict(self.parameters)
        try:
            self.take(draws)
        except BaseException as error:
            if isinstance(error, TargetError):
                error.run = None  # its chains are about to go back
            for chain, state in zip(self._chains, before, strict=True):
                chain.restore(state)
            self._keep_traces(kept, parameters)
            raise
        return self

    def take(self, draws: int) -> None:
        """Take more draws, and leave the chains where they are when that fails: `extend` without a way back."""
        self._allocate(draws)
        errors = run_chains(
            self._chains, draws * self.sweeps_per_draw, self._threads, self._progress, self.sampler.name
        )
        self._forget()
        if errors:
            errors[0].run = self._without({error.chain for error in errors})
            raise errors[0]

    def _without(self, numbers: set[int | None]) -> Self | None:
        """Return a run of the chains with other numbers, or None where there is none."""
        left = [k for k, chain in enumerate(self._chains) if chain.number not in numbers]
        if not left:
            return None
        run = type(self)(self.target, self.sampler, [self._chains[k] for k in left], self._options)
        run._warmup_seconds = self._warmup_seconds * len(left) / len(self._chains)
        traces = {name: trace[left] for name, trace in self._traces().items()}
        run._keep_traces(traces, {name: trace[left] for name, trace in self.parameters.items()})
        return run

    def _traces(self) -> dict[str, NDArray[Any]]:
        return {name: getattr(self, name) for name in self._new_traces(0)}

    def _keep_traces(self, traces: dict[str, NDArray[Any]], parameters: dict[str, NDArray[np.float64]]) -> None:
        for name, trace in traces.items():
            setattr(self, name, trace)
        self.parameters = parameters
        self._hand_out()

    def _allocate(self, more: int) -> None:
        """Make room for more draws and tell the recorders."""
        for name, room in self._new_traces(more).items():
            setattr(self, name, np.concatenate([getattr(self, name), room], axis=1))
        self._hand_out_parameters(more)
        self._hand_out()

    def _hand_out(self) -> None:
        for k, chain in enumerate(self._chains):
            chain.recorder = chain.recorder._replace(**{name: trace[k] for name, trace in self._traces().items()})
            chain.hand_parameters({name: trace[k] for name, trace in self.parameters.items()})

    def _hand_out_parameters(self, more: int) -> None:
        """Make room for what is updated beside the target."""
        for name, shape in self._chains[0].parameter_shapes().items():
            room = np.zeros((len(self._chains), more, *shape))
            known = self.parameters.get(name, room[:, :0])
            self.parameters[name] = np.concatenate([known, room], axis=1)

    def _forget(self) -> None:
        """Drop everything that was computed from a shorter run."""
        for name in ("_sums", "diagnostics", *self._computed):
            self.__dict__.pop(name, None)

    @property
    def sweeps_per_draw(self) -> int:
        """Sweeps from one draw to the next."""
        stride: int = self.sampler.stride
        return self.thin * stride

    @property
    def sampling_seconds(self) -> float:
        """CPU seconds of all chains in compiled code after warm-up, without compilation."""
        return float(sum(chain.cpu_seconds for chain in self._chains) - self._warmup_seconds)

    @property
    def flips_per_site(self) -> NDArray[np.int64]:
        flips: NDArray[np.int64] = np.sum([chain.recorder.flips for chain in self._chains], axis=0)
        return flips

    @cached_property
    def _sums(self) -> Sums:
        return Sums.of(self._chains)

    @property
    def mean(self) -> NDArray[np.float64]:
        return self._mean.mean

    @property
    def mean_se(self) -> NDArray[np.float64]:
        return self._mean.standard_error

    def index(self, variable: Hashable) -> int:
        """Return the place of a variable in all results, given its label; an integer that is no label is its place."""
        labels: tuple[Hashable, ...] = self.target.labels
        d = len(labels)
        if variable in labels:
            return labels.index(variable)
        if isinstance(variable, int | np.integer) and -d <= variable < d:
            return int(variable) % d
        raise ValueError(f"variable is {variable!r:.60}; expected a label ({labels[0]!r}, ...) or 0 to {d - 1}")

    def interval(self, name: str = "mean", level: float = 0.95) -> tuple[Any, Any]:
        """Return the ends of the confidence intervals of a level, by the Student quantile of the batches.

        Parameters
        ----------
        name : str
            An estimate of this run that has a standard error, such as "mean".
        level : float
            Probability that an interval covers the truth.
        """
        if name not in self._estimates:
            raise ValueError(f"name is {name!r}; expected one of: {', '.join(self._estimates)}")
        half = student_quantile(level, self._mean.degrees_of_freedom) * getattr(self, f"{name}_se")
        return getattr(self, name) - half, getattr(self, name) + half

    @cached_property
    def diagnostics(self) -> dict[str, Any]:
        return self._diagnose()

    def summary(self) -> Summary:
        """Return means, error bars and diagnostics as a table: `print` it, or use its `to_frame` or `to_dict`."""
        return self._summary()

    def to_arviz(self) -> xarray.DataTree:
        """Return the draws as a tree of labelled arrays in the layout of ArviZ; needs the extra `arviz`."""
        return self._to_arviz()

    def save(self, path: str | os.PathLike[str], overwrite: bool = False) -> None:
        """Write the run to a file that `bouncy.Run.load` and every reader of ArviZ's layout understand.

        Parameters
        ----------
        path : path
            Ends in `.nc` (NetCDF4, one file) or `.zarr` (a directory, zarr format 3). Needs the extra `storage`.
        overwrite : bool
            Replace what is there.

        Notes
        -----
        It is written whole or not at all. Labels that are neither numbers, text nor tuples of them are saved as text.
        """
        from bouncy.results.saving import save_run

        save_run(self, path, overwrite)

    @classmethod
    def load(cls, path: str | os.PathLike[str], target: Any = None) -> Self:
        """Read a run that was saved: it has all results, bit by bit, but its chains cannot go on.

        Parameters
        ----------
        path : path
            What `save` wrote, `.nc` or `.zarr`. Nothing in it is ever executed.
        target : Target, PiecewiseTarget or Within, optional
            What was sampled, which is checked. Without it `run.target` has its size, labels and name alone.

        Raises
        ------
        RunFileError
            If the file is no saved run, or is damaged.

        Examples
        --------
        >>> import bouncy, pathlib, tempfile
        >>> run = bouncy.sample(bouncy.MRF.random(3, seed=0), draws=100, seed=0)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "run.zarr")
        ...     run.save(path)
        ...     again = bouncy.Run.load(path)
        >>> bool((again.mean == run.mean).all())
        True
        """
        from bouncy.results.saving import load_run

        run = load_run(path, target)
        if not isinstance(run, cls):
            raise TypeError(f"{path} holds a {type(run).__name__}, not a {cls.__name__}; use bouncy.Run.load")
        return run

    def __copy__(self) -> Self:
        """Return an independent run: two that shared their chains could not both be extended."""
        return copy.deepcopy(self)

    def __repr__(self) -> str:
        chains, draws = self.log_prob.shape
        return f"<Run of {self.sampler.name} on {self.target!r}: {chains} chains x {draws} draws>"
