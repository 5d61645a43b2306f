"""The result of a run, whatever was sampled."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from concurrent.futures import Executor
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bouncy import _html
from bouncy.recorders.tracked import Tracked
from bouncy.results.batches import student_quantile
from bouncy.results.data import Data
from bouncy.results.diagnostics import BATCH_TIMES, ENOUGH_BATCHES
from bouncy.results.ess import effective_sample_size, rank_normalise
from bouncy.results.inclusion import InclusionTable
from bouncy.results.moments import Quantity, Sums
from bouncy.workers.within import PARAMETER

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure

    from bouncy.enumeration import Exact
    from bouncy.results.summary import Summary
    from bouncy.run.progress import Progress

# Points of a trace that its autocorrelation time is estimated from.
_POINTS = 4096


class Run(ABC):
    """A finished run: what the chains of a sampler on a target found. It never changes.

    Attributes
    ----------
    draws : ndarray, shape (chain, draw, d)
        States on a regular grid of the sampler's time; no draws with `keep="means"`.
    log_prob : ndarray, shape (chain, draw)
        `target.log_prob` of each draw, unnormalised; kept even when the states are not, then of every
        `trace_spacing`-th.
    mean, mean_se : ndarray, shape (d,)
        Expectations and their standard errors, from the whole path.
    flips_per_site : ndarray of int64, shape (d,)
        Accepted flips of each site, or crossings of each continuous variable, of all chains together.
    parameters : dict
        What was updated beside the target (`bouncy.Within`), each of shape (chain, draw, ...).
    diagnostics : dict
        Counts, effective sample sizes, R-hat, z-scores of the event rates, and warnings in plain words.
    target, sampler
        What was sampled, and how.
    thin : int
        Sweeps from one draw to the next; for HMC trajectories.
    stopped_by : str
        Why it ended: "draws", "seconds", "until_se", "disagreement" (chains disagree, so that no standard error can be
        trusted to be below a bound) or "interrupt".
    completed : bool
        False for a run that was interrupted.
    seed : int or SeedSequence
        What to pass as `seed` to get the same bytes again.
    """

    # Estimates that `interval` knows.
    _estimates: ClassVar[tuple[str, ...]]
    # Type of the entries of draws.
    _dtype: ClassVar[type]

    def __init__(self, data: Data) -> None:
        self._data = data
        setup = data.setup
        self.target, self.sampler, self.seed, self.thin = setup.target, setup.sampler, setup.seed, setup.thin
        self.stopped_by = data.stopped_by

    @property
    @abstractmethod
    def mean(self) -> NDArray[np.float64]: ...

    @property
    @abstractmethod
    def mean_se(self) -> NDArray[np.float64]: ...

    @abstractmethod
    def _scalars(self) -> dict[str, NDArray[np.float64]]:
        """Return the scalar traces, (chain, draw), by name."""

    @abstractmethod
    def _disagreement(self) -> NDArray[np.float64]:
        """Return, for each site, the probability that chains which agree differ as much as these do."""

    @abstractmethod
    def _diagnose(self) -> dict[str, Any]:
        """Return the diagnostics."""

    @abstractmethod
    def _inclusion(self) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """Return the probability of each variable to be in the model and its standard error; None if it has none."""

    @abstractmethod
    def _summary(self) -> Summary:
        """Return the table of estimates and diagnostics."""

    @abstractmethod
    def _to_arviz(self) -> xarray.DataTree:
        """Return the draws in the layout of ArviZ."""

    # Going on

    def extend(
        self,
        draws: int | None = None,
        *,
        seconds: float | None = None,
        until_se: float | None = None,
        se_of: str | Callable[[NDArray[Any]], Any] = "mean",
        threads: int | None = None,
        executor: Executor | Callable[[], Executor] | None = None,
        progress: bool | Callable[[Progress], object] | None = None,
    ) -> Self:
        """Continue the same chains, and return the longer run. This one stays as it is; the two share their arrays.

        Parameters
        ----------
        draws : int, optional
            More draws of each chain.
        seconds : float, optional
            More CPU seconds of each chain.
        until_se, se_of, threads, executor, progress
            As for `bouncy.sample`.

        The result has the same bytes as that of one run of the total length. A run with a checkpoint goes on writing to
        it, unless another run has done so since.

        Examples
        --------
        >>> import bouncy
        >>> run = bouncy.sample(bouncy.MRF.random(5, seed=0), draws=100, seed=0)
        >>> longer = run.extend(draws=100)
        >>> run.draws.shape[1], longer.draws.shape[1]
        (100, 200)
        """
        from bouncy.run.driver import extended

        return extended(  # type: ignore[no-any-return]
            self, draws, seconds, until_se, se_of, threads=threads, executor=executor, progress=progress
        )

    # What is kept

    @property
    def completed(self) -> bool:
        return self.stopped_by != "interrupt"

    @property
    def chains(self) -> int:
        """Number of chains."""
        return len(self._data.chains)

    @property
    def fingerprint(self) -> str:
        """Digest that tells the target from others."""
        found: str = self.target.fingerprint
        return found

    @property
    def warmup(self) -> int:
        """Sweeps of each chain before anything was recorded; for HMC trajectories, as `thin` and draws."""
        stride: int = self.sampler.stride
        return self._data.warmup_sweeps // stride

    @cached_property
    def draws(self) -> NDArray[Any]:
        rows = self._data.records.rows
        if "draws" in rows.columns:
            return rows.array("draws")
        return np.zeros((self.chains, 0, self.target.d), self._dtype)

    @property
    def draws_per_chain(self) -> int:
        """Draws of each chain, of which not all need to have been kept."""
        return self._data.drawn

    @cached_property
    def log_prob(self) -> NDArray[np.float64]:
        return self._trace("log_prob")

    def _trace(self, name: str) -> NDArray[np.float64]:
        """Return what is kept of each draw by a name, (chain, draw)."""
        rows = self._data.records.rows
        return rows.array(name) if name in rows.columns else np.zeros((self.chains, 0))

    @cached_property
    def parameters(self) -> dict[str, NDArray[np.float64]]:
        names = [name for name in self._data.records.rows.templates if name.startswith(PARAMETER)]
        return {name.removeprefix(PARAMETER): self._trace(name) for name in names}

    @property
    def trace_spacing(self) -> int:
        """Draws from one point of `log_prob` to the next: 1, or more with `keep="means"` in constant memory."""
        column = self._data.records.rows.columns.get("log_prob")
        return 1 if column is None else column.spacing

    @property
    def sweeps_per_draw(self) -> int:
        """Sweeps from one draw to the next."""
        return self._data.setup.per_draw

    @property
    def sampling_seconds(self) -> float:
        """CPU seconds of all chains in compiled code after warm-up, without compilation."""
        return self._data.cpu_seconds - self._data.warmup_seconds

    # Estimates

    @property
    def flips_per_site(self) -> NDArray[np.int64]:
        flips: NDArray[np.int64] = np.sum([totals["flips"] for totals in self._data.totals], axis=0)
        return flips

    def events(self) -> NDArray[np.int64]:
        """Return the numbers of hits, flips, bounces and refreshments of all chains, (4,)."""
        return self._data.sums().totals("events")

    @cached_property
    def _sums(self) -> Sums:
        """Batches for standard errors, as long as the autocorrelation times of the traces ask for."""
        sums = self._data.sums()
        if sums.batches * sums.chains < 2 * ENOUGH_BATCHES:
            return sums
        return sums.coarser(BATCH_TIMES * self._autocorrelation_sweeps(), ENOUGH_BATCHES)

    def _autocorrelation_sweeps(self) -> float:
        """Return the longest autocorrelation time of the scalar traces, in sweeps; 0 where none is known."""
        longest = 0.0
        for trace in self._scalars().values():
            step = max(1, trace.shape[1] // _POINTS)
            points = trace[:, ::step]
            if points.shape[1] < 4 or np.ptp(points) == 0.0 or not np.isfinite(points).all():
                continue
            size = float(effective_sample_size(rank_normalise(points)[:, :, None])[0])
            longest = max(longest, step * points.size / size)
        return longest * self.trace_spacing * self.sweeps_per_draw

    def _path_error(
        self, quantity: Quantity, reach: NDArray[np.float64] | float, jumps: bool = True, sums: Sums | None = None
    ) -> NDArray[np.float64]:
        """Return the standard error of a time average, given how far the quantity may go from its mean.

        A quantity that `jumps` has two values and stays at each for a sweep or, in HMC, a trajectory. It is read from
        other `sums` than those of the run if there are any.
        """
        stride = float(self._data.setup.sampler.stride)
        excursion = max(stride, self._autocorrelation_sweeps())
        sums = self._sums if sums is None else replace(sums, factor=self._sums.factor)
        return sums.path_error(quantity, self._data.sweep_time, reach, stride if jumps else 0.0, excursion)

    def expect(self, function: Callable[[NDArray[Any]], Any]) -> tuple[Any, Any]:
        """Return the mean of a function of states and its standard error, from batches of draws.

        Parameters
        ----------
        function : callable
            Takes states, (n, d), and returns numbers, (n,) or (n, k), one row for each state.

        Examples
        --------
        >>> import bouncy
        >>> run = bouncy.sample(bouncy.MRF.ising((4, 4), coupling=0.3), draws=500, seed=0)
        >>> size, error = run.expect(lambda s: abs(s.mean(axis=1)))
        >>> bool(0.3 < size < 0.7)
        True
        """
        tracked = self._data.records.tracked
        if tracked is None or tracked.function is not function:
            if not self.draws.shape[1]:
                raise ValueError("the run has no draws to compute the function of; sample again with keep='draws'")
            tracked = Tracked(function, self.chains, self._data.setup.slots)
            tracked.append(list(self.draws))
        sums = Sums.of_tracked(tracked, self._sums.factor)
        mean, error = (estimate(lambda batch: batch["f"], 1.0) for estimate in (sums.mean, sums.error))
        return (mean[0], error[0]) if mean.size == 1 else (mean, error)

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
        half = student_quantile(level, self._sums.degrees_of_freedom) * getattr(self, f"{name}_se")
        return getattr(self, name) - half, getattr(self, name) + half

    @cached_property
    def diagnostics(self) -> dict[str, Any]:
        return self._diagnose()

    def summary(self) -> Summary:
        """Return means, error bars and diagnostics as a table: `print` it, or use its `to_frame` or `to_dict`."""
        return self._summary()

    def inclusion_table(self) -> InclusionTable:
        """Return the posterior inclusion probabilities as a table, the most probable variable first.

        `print` it, iterate over its rows (variable, probability, standard_error), or use its `to_frame`. Warnings about
        the run are printed below it.

        On a `VariableSelection`, also a clamped or tempered one, the probability of variable j is (1 + E[s_j])/2, with
        E[s_j] the average of the conditional means E[s_j | rest] (Rao-Blackwellised), so that small probabilities are
        estimated from all sweeps and not from the few visits alone. On a `SpikeSlab`, and on every target where zero
        has a probability of its own, it is the average of the probability given all others with "gibbs", and the share
        of time in which the coefficient was not zero with "bps".

        Raises
        ------
        TypeError
            On other targets, whose variables are neither in a model nor out of it.

        Examples
        --------
        >>> import numpy as np
        >>> import bouncy
        >>> X = np.random.default_rng(0).standard_normal((50, 3))
        >>> target = bouncy.VariableSelection(X, X[:, 1] + 0.1 * X[:, 0] ** 2, labels=["a", "b", "c"])
        >>> table = bouncy.sample(target, draws=500, seed=0).inclusion_table()
        >>> table[0].variable, round(table[0].probability, 3)
        ('b', 1.0)
        """
        found = self._inclusion()
        if found is None:
            raise TypeError(
                f"inclusion_table is for runs on targets whose variables are in a model or not, VariableSelection and "
                f"SpikeSlab; this run is on {self.target!r:.80}"
            )
        return InclusionTable(self.target.labels, *found, self.diagnostics["warnings"])

    def plot(self, reference: Exact | Run | ArrayLike | None = None) -> Figure:
        """Draw an overview of the run in six panels, and return the figure; needs the extra `plots`.

        The short form of `bouncy.plots.plot_run(run, reference)`, which says what is drawn.
        """
        from bouncy.plots import plot_run

        return plot_run(self, reference)

    def to_arviz(self) -> xarray.DataTree:
        """Return the draws as a tree of labelled arrays in the layout of ArviZ; needs the extra `arviz`."""
        return self._to_arviz()

    def save(self, path: str | os.PathLike[str], overwrite: bool = False) -> None:
        """Write the run to a file, from which `bouncy.Run.load` returns it whole.

        Parameters
        ----------
        path : path
            Ends in `.npz` (arrays of NumPy and a header), or, to be read by every tool that knows ArviZ's layout, in
            `.nc` (NetCDF4, one file) or `.zarr` (a directory, zarr format 3); these two need the extra `storage`.
        overwrite : bool
            Replace what is there.

        Notes
        -----
        It is written whole or not at all. Labels that are neither numbers, text nor tuples of them are saved as text.
        """
        from bouncy.storage.run_file import save_run

        save_run(self, path, overwrite)

    @classmethod
    def load(cls, path: str | os.PathLike[str], target: Any = None) -> Self:
        """Read a run that was saved, or look into a checkpoint.

        Parameters
        ----------
        path : path
            What `save` wrote, or the folder of a checkpoint, also while a run is writing to it. Nothing in it is ever
            executed.
        target : Target, PathTarget or Within, optional
            What was sampled, which is checked. Without it `run.target` has its size, labels and name alone, and the run
            cannot be extended.

        Raises
        ------
        RunFileError, CheckpointError
            If the file is no saved run, or the folder no checkpoint, or is damaged.

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
        from bouncy.storage.run_file import load_run

        run = load_run(path, target)
        if not isinstance(run, cls):
            raise TypeError(f"{path} holds a {type(run).__name__}, not a {cls.__name__}; use bouncy.Run.load")
        return run

    def __str__(self) -> str:
        """Return in three lines what the run is, how precise it is, and whether to trust it."""
        from bouncy.results.summary import verdict

        return "\n".join(verdict(self))

    def _repr_html_(self) -> str:
        """Return the same for a notebook, with a picture of the means, and the summary for those who ask for it."""
        from bouncy.results.summary import verdict

        what, precision, trust = verdict(self)
        doubts = self.diagnostics["warnings"]
        said = _html.text([what, precision] if doubts else [what, precision, trust], doubts)
        means = _html.chart("means with 95 % intervals", self.mean, *self.interval())
        return "\n".join([said, means, _html.folded("summary", self.summary()._repr_html_())])

    def __repr__(self) -> str:
        return f"<Run of {self.sampler.name} on {self.target!r}: {self.chains} chains x {self.draws_per_chain} draws>"
