"""The result of a run, whatever was sampled."""

from __future__ import annotations

import copy
import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from bouncy._fingerprint import target_fingerprint
from bouncy.results.batches import Estimate, student_quantile
from bouncy.results.diagnostics import BATCH_TIMES, ENOUGH_BATCHES
from bouncy.results.moments import Sums
from bouncy.results.precision import autocorrelation_sweeps, look, tracked_estimate
from bouncy.run.checkpoint import Checkpoint
from bouncy.run.crew import Crew, Threads
from bouncy.run.goal import Goal, check_goal
from bouncy.run.growth import RECORDING, Growth
from bouncy.run.progress import Reporter
from bouncy.run.sent import Sent, WorkerError
from bouncy.run.session import Session
from bouncy.run.within import PARAMETER

if TYPE_CHECKING:
    import xarray

    from bouncy.results.summary import Summary


# Who runs the chains and who is told of it, where nobody was named.
NO_RESOURCES: dict[str, Any] = {"threads": None, "executor": None, "progress": None}


class InterruptedWarning(UserWarning):
    """A run was interrupted, and what there is of it was returned."""


class DisagreementWarning(UserWarning):
    """A run that was to go on until its standard errors are small has chains that disagree."""


class Run(ABC):
    """Chains of a sampler on a target, and what they found: what runs on all kinds of targets have in common.

    Attributes
    ----------
    draws : ndarray, shape (chain, draw, d)
        States on a regular grid of the sampler's time; no draws with `keep="means"`.
    log_prob : ndarray, shape (chain, draw)
        Unnormalised log-probability of each draw; kept even when the states are not, then of every `trace_spacing`-th.
    mean, mean_se : ndarray, shape (d,)
        Expectations and their standard errors, from the whole path.
    flips_per_site : ndarray of int64, shape (d,)
        Accepted flips of each site, or crossings of each continuous variable, of all chains together.
    parameters : dict
        What was updated beside the target (`bouncy.Within`), each of shape (chain, draw, ...).
    diagnostics : dict
        Counts, effective sample sizes, R-hat, z-scores of the event rates, and warnings in plain words.
    stopped_by : str
        Why it ended: "draws", "seconds", "until_se", "disagreement" (chains disagree, so that no standard error can be
        trusted to be below a bound) or "interrupt".
    completed : bool
        False for a run that was interrupted.
    seed : int or SeedSequence
        What to pass as `seed` to get the same bytes again.
    """

    # Estimates that `interval` knows, and all that is computed from the chains and kept.
    _estimates: ClassVar[tuple[str, ...]]
    _computed: ClassVar[tuple[str, ...]]
    # What draws are made of.
    _dtype: ClassVar[type]
    # Of a run that was read from a file: when it was made, and with what.
    _origin: dict[str, Any]

    def __init__(self, target: Any, sampler: Any, growth: Growth, options: dict[str, Any]) -> None:
        self.target = target
        self.sampler = sampler
        self.seed = options["seed"]
        self.thin: int = options["thin"]
        self.stopped_by = "nothing"
        self._options = options
        self._growth = growth
        self._goal = Goal()
        self._checkpoint: Checkpoint | None = None

    @property
    @abstractmethod
    def _mean(self) -> Estimate:
        """The estimate that `mean` is, whose batches all estimates share."""

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
    ) -> Self:
        """Continue the same chains, in place, and return the run.

        Parameters
        ----------
        draws : int, optional
            More draws of each chain.
        seconds : float, optional
            More CPU seconds of each chain.
        until_se, se_of
            As for `bouncy.sample`.

        The result has the same bytes as that of one run of the total length. A run whose target fails while it is
        extended stays as it was; one that is interrupted keeps what it has.
        """
        if self._growth.folder is not None and self._checkpoint is None:
            raise RuntimeError("a checkpoint that is looked into cannot go on: use bouncy.resume(path, target)")
        goal = check_goal(draws, seconds, until_se, se_of)
        if draws is None and seconds is None and until_se is None:
            raise TypeError("extend needs to know how far: draws=, seconds= or until_se=")
        growth = self._growth
        goal.draws = None if goal.draws is None else growth.drawn + goal.draws
        goal.seconds = None if goal.seconds is None else growth.seconds + goal.seconds
        goal.look_again(growth.drawn)
        if callable(se_of) and (growth.tracked is None or growth.tracked.function is not se_of):
            raise ValueError("se_of must be the function that the run began with: states of the past are needed for it")
        before = _Before(self)
        try:
            self.go_on(goal, chooses_warmup=False)
        except BaseException as error:
            if hasattr(error, "run"):
                error.run = None  # its chains are about to go back
            before.put_back(self)
            raise
        return self

    def go_on(self, goal: Goal, chooses_warmup: bool) -> None:
        """Go on to a goal, and leave the chains where they are when that fails: `extend` without a way back."""
        self._goal, self._options["chooses_warmup"] = goal, chooses_warmup
        crew = _crew(self._options)
        session = Session(
            self._growth, goal, crew, Reporter(self._options["progress"]), self._look,
            chooses_warmup, self._checkpoint, self._save_state,
        )  # fmt: skip
        try:
            self.stopped_by = session.run()
            if self._checkpoint is not None:
                self._checkpoint.write(*self._save_state(), self._growth.rows)
        except WorkerError as error:
            self.stopped_by = "interrupt"
            error.run = self
            raise
        finally:
            self._forget()
            crew.close()
            if self._checkpoint is not None:
                self._checkpoint.wait()
        if session.errors:
            session.errors[0].run = self
            raise session.errors[0]
        self._tell()

    def _look(self) -> Any:
        self._forget()
        return look(self, self._goal)

    def _save_state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        from bouncy.results.resuming import saved

        return saved(self)

    def _tell(self) -> None:
        """Warn of a run that did not end as it was meant to."""
        if self.stopped_by == "interrupt":
            wanted = "" if self._goal.draws is None else f" of {self._goal.draws}"
            what = f"after {self._growth.drawn}{wanted} draws" if self._growth.stage == RECORDING else "in its warm-up"
            more = " or resume()" if self._checkpoint is not None else ""
            warnings.warn(
                f"the run was interrupted {what}; what there is of it is returned, and extend(){more} would go on",
                InterruptedWarning,
                stacklevel=4,
            )
        if self.stopped_by == "disagreement":
            what = (
                "chains disagree, and do not stop to, so that they have not all visited the same states"
                if self.flips_per_site.any()
                else "chains have never moved, so that nothing is known of other states"
            )
            warnings.warn(
                f"the standard errors cannot be trusted to be below a bound: {what}. Longer runs alone rarely help; a "
                "longer warm-up, other starts (initial=) or tempering may",
                DisagreementWarning,
                stacklevel=4,
            )

    def _forget(self) -> None:
        """Drop everything that was computed from a shorter run."""
        for name in ("_sums", "diagnostics", "draws", "log_prob", "parameters", *self._computed):
            self.__dict__.pop(name, None)

    def with_resources(self, resources: dict[str, Any]) -> Self:
        """Be run by these from now on."""
        self._options |= resources
        return self

    def attach(self, checkpoint: Checkpoint | None) -> None:
        """Be written to a checkpoint from now on."""
        self._checkpoint = checkpoint

    @property
    def chooses_warmup(self) -> bool:
        """Whether the length of the warm-up was for us to choose."""
        return bool(self._options["chooses_warmup"])

    def events(self) -> NDArray[np.int64]:
        """Return the numbers of hits, flips, bounces and refreshments of all chains, (4,)."""
        totals: NDArray[np.int64] = np.sum([chain.events() for chain in self._chains], axis=0)
        return totals

    # What is kept

    @property
    def _chains(self) -> list[Any]:
        return self._growth.chains

    @property
    def completed(self) -> bool:
        return self.stopped_by != "interrupt"

    @cached_property
    def fingerprint(self) -> str:
        """What tells the target from others."""
        return target_fingerprint(self.target)

    @property
    def warmup(self) -> int:
        """Sweeps of each chain before anything was recorded."""
        return self._growth.warmup

    @cached_property
    def draws(self) -> NDArray[Any]:
        if "draws" in self._growth.rows.columns:
            return self._growth.rows.array("draws")
        return np.zeros((len(self._chains), 0, self.target.d), self._dtype)

    @cached_property
    def log_prob(self) -> NDArray[np.float64]:
        return self._trace("log_prob")

    def _trace(self, name: str) -> NDArray[np.float64]:
        """Return what is kept of each draw by a name, (chain, draw)."""
        if name not in self._growth.rows.columns:
            return np.zeros((len(self._chains), 0))
        return self._growth.rows.array(name)

    @cached_property
    def parameters(self) -> dict[str, NDArray[np.float64]]:
        names = [name for name in self._growth.templates() if name.startswith(PARAMETER)]
        return {name.removeprefix(PARAMETER): self._trace(name) for name in names}

    @property
    def trace_spacing(self) -> int:
        """Draws from one point of `log_prob` to the next: 1, unless `keep="means"` has to do with constant memory."""
        column = self._growth.rows.columns.get("log_prob")
        return 1 if column is None else column.spacing

    @property
    def sweeps_per_draw(self) -> int:
        """Sweeps from one draw to the next."""
        stride: int = self.sampler.stride
        return self.thin * stride

    @property
    def sampling_seconds(self) -> float:
        """CPU seconds of all chains in compiled code after warm-up, without compilation."""
        return float(sum(chain.cpu_seconds for chain in self._chains) - self._growth.warmup_seconds)

    # Estimates

    @property
    def flips_per_site(self) -> NDArray[np.int64]:
        flips: NDArray[np.int64] = np.sum([chain.recorder.flips for chain in self._chains], axis=0)
        return flips

    @cached_property
    def _sums(self) -> Sums:
        sums = Sums.of(self._chains)
        if sums.closed * len(sums.recorders) < 2 * ENOUGH_BATCHES:
            return sums
        return sums.coarser(BATCH_TIMES * autocorrelation_sweeps(self), ENOUGH_BATCHES)

    @property
    def mean(self) -> NDArray[np.float64]:
        return self._mean.mean

    @property
    def mean_se(self) -> NDArray[np.float64]:
        return self._mean.standard_error

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
        from bouncy.run.tracked import Tracked

        tracked = self._growth.tracked
        if tracked is None or tracked.function is not function:
            if not self.draws.shape[1]:
                raise ValueError("the run has no draws to compute the function of; sample again with keep='draws'")
            tracked = Tracked(function, len(self._chains), self._chains[0].recorder.events.shape[0])
            for k, states in enumerate(self.draws):
                tracked.append(k, states)
        found = tracked_estimate(tracked, self._sums.factor)
        one = found.mean.size == 1
        return (found.mean[0], found.standard_error[0]) if one else (found.mean, found.standard_error)

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
            What `save` wrote, `.nc` or `.zarr`, or the folder of a checkpoint, also while a run is writing to it.
            Nothing in it is ever executed.
        target : Target, PiecewiseTarget or Within, optional
            What was sampled, which is checked. Without it `run.target` has its size, labels and name alone; a
            checkpoint cannot be read without.

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
        from bouncy.results.resuming import look_into
        from bouncy.results.saving import is_checkpoint, load_run

        run = look_into(path, target) if is_checkpoint(path) else load_run(path, target)
        if not isinstance(run, cls):
            raise TypeError(f"{path} holds a {type(run).__name__}, not a {cls.__name__}; use bouncy.Run.load")
        return run

    def __copy__(self) -> Self:
        """Return an independent run: two that shared their chains could not both be extended."""
        return copy.deepcopy(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        twin = type(self).__new__(type(self))
        memo[id(self)] = twin
        state = {**self.__dict__, "_checkpoint": None}  # which only one of them can write
        options = {**self._options, "executor": None}
        twin.__dict__ = copy.deepcopy({k: v for k, v in state.items() if k != "_options"}, memo)
        twin._options = options
        return twin

    def __repr__(self) -> str:
        chains, draws = len(self._chains), self._growth.drawn
        return f"<Run of {self.sampler.name} on {self.target!r}: {chains} chains x {draws} draws>"


class _Before:
    """A run as it was."""

    def __init__(self, run: Run) -> None:
        growth = run._growth
        self._states = [chain.state() for chain in growth.chains]
        self._draws, self._sweeps = growth.drawn, growth.sweeps
        self._tracked = None if growth.tracked is None else copy.deepcopy(growth.tracked.arrays())
        self._stopped_by, self._goal = run.stopped_by, run._goal
        self._attributes = {name: value for name, value in vars(growth).items() if name != "tracked"}

    def put_back(self, run: Run) -> None:
        """Have a run be as it was."""
        growth = run._growth
        vars(growth).update(self._attributes)
        for chain, state in zip(growth.chains, self._states, strict=True):
            chain.restore(state)
        growth.rows.cut(self._draws, self._sweeps)
        if growth.tracked is not None and self._tracked is not None:
            growth.tracked.restore(self._tracked)
        run.stopped_by, run._goal = self._stopped_by, self._goal
        run._forget()


def _crew(options: dict[str, Any]) -> Crew:
    """Return who does the work."""
    from concurrent.futures import ThreadPoolExecutor

    executor = options["executor"]
    if executor is None or isinstance(executor, ThreadPoolExecutor):
        return Threads(options["threads"], executor)
    return Sent(executor)
