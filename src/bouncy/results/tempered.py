"""The result of a tempered run: what a run on spins has, log Z, and the ladder itself."""

from __future__ import annotations

import importlib
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, logsumexp, stdtr

from bouncy import _html
from bouncy._validation import check_real_array
from bouncy.recorders.batches import Batch
from bouncy.recorders.ladder import (
    DOWN,
    FALLING,
    FINITE,
    FORWARD,
    REVERSE,
    RISING,
    ROWS,
    SQUARE,
    SWAP,
    UP,
    VALUE,
)
from bouncy.results.describe import counted
from bouncy.results.diagnostics import BATCH_TIMES, ENOUGH_BATCHES
from bouncy.results.moments import Sums, spread
from bouncy.results.spins import Best, SpinRun
from bouncy.results.summary import Summary, spin_summary

Array = NDArray[np.float64]

# Batches that standard errors come from, and blocks of draws of those of a curve.
_FEWEST = 2
_BLOCKS = 16
# Values of V that a curve is computed from, at most.
_MOST_VALUES = 1 << 17
# Round trips of a ladder below which it has proved little, and acceptance of a swap below which a rung is cut off.
_FEW_TRIPS, _CUT_OFF = 10, 0.05
# Mean share of refused swaps above which the barrier is larger than the ladder can show.
_CROWDED = 0.75
# Ladders disagree on log Z below this probability.
_DISAGREE = 1e-4
# Largest difference between a step of log Z and what the warm-up took it for.
_FARTHEST = 100.0
# Round trips of each state in a batch.
_TRIPS_PER_BATCH = 2.0
# Columns of a ladder, their widths in print, and how their numbers are shown.
_FORMS = {
    "b": (10, ".5f"),
    "acceptance": (10, ".3f"),
    "mean": (12, ".5g"),
    "variance": (12, ".4g"),
    "log_z": (12, ".6g"),
    "flow": (8, ".3f"),
}


class Curve(NamedTuple):
    """Thermodynamics along the path, each an array of the shape of `b`, with standard errors.

    With a uniform reference, `mean` and `variance` are those of log p under p^b, normalised: minus the energy, and the
    heat capacity divided by b^2; `log_z` is the logarithm of the sum of p^b. With another one they are those of
    log p - log q, and of q^(1 - b) p^b.
    """

    b: Array
    log_z: Array
    log_z_se: Array
    mean: Array
    mean_se: Array
    variance: Array
    variance_se: Array


class Ladder:
    """The rungs of a tempered run: `print` it, index its columns, or use its `to_frame`.

    Columns
    -------
    b : ndarray, shape (rung,)
        Inverse temperatures, from 0, the reference, to 1, the target.
    acceptance : ndarray, shape (rung,)
        Mean probability of a swap with the next rung; NaN for the last.
    mean, variance : ndarray, shape (rung,)
        Of log p where the reference is uniform, otherwise of log p - log q.
    log_z : ndarray, shape (rung,)
        Logarithm of the sum of p(s)^b where the reference is uniform, otherwise of that of q(s)^(1 - b) p(s)^b.
    flow : ndarray, shape (rung,)
        Share of the states at the rung that were at the reference last, of those that come from either end: from 1 at
        the reference to 0 at the target. NaN where none has.
    """

    def __init__(
        self, columns: dict[str, Array], barrier: float, trips: NDArray[np.int64], scans: int, ladders: int
    ) -> None:
        self._columns = columns
        self.barrier, self.round_trips, self.scans, self.ladders = barrier, trips, scans, ladders

    def __getitem__(self, name: str) -> Array:
        return self._columns[name]

    def __len__(self) -> int:
        return self._columns["b"].size

    @property
    def expected_round_trips(self) -> float:
        """Round trips of a chain, of all its ladders, whose states forget themselves between swaps."""
        refused = 1.0 - self["acceptance"][:-1]
        with np.errstate(divide="ignore"):
            return float(self.ladders * self.scans / (2.0 + 2.0 * (refused / (1.0 - refused)).sum()))

    def to_frame(self) -> Any:
        """Return a pandas data frame with a row for each rung."""
        try:
            pandas = importlib.import_module("pandas")
        except ImportError as error:
            raise ImportError("to_frame needs pandas: install it with  pip install pandas") from error
        return pandas.DataFrame(self._columns, index=pandas.RangeIndex(len(self), name="rung"))

    def __str__(self) -> str:
        widths = [4, *(width for width, _ in _FORMS.values())]
        rows = [["rung", *_FORMS], *self._rows()]
        lines = [" ".join(f"{text:>{width}}" for text, width in zip(row, widths, strict=True)) for row in rows]
        return "\n".join([*lines, self._remark()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Return the same for a notebook, with a picture of the swaps."""
        swaps = _html.chart("probability of a swap with the next rung", self["acceptance"][:-1], ends=(0.0, 1.0))
        return "\n".join([_html.table(["rung", *_FORMS], self._rows()), swaps, _html.text([self._remark()])])

    def _rows(self) -> list[list[str]]:
        """Return the texts of each rung, its number first."""
        return [
            [
                str(k),
                *(
                    f"{self[name][k]:{form}}" if np.isfinite(self[name][k]) else "-"
                    for name, (_, form) in _FORMS.items()
                ),
            ]
            for k in range(len(self))
        ]

    def _remark(self) -> str:
        return (
            f"barrier {self.barrier:.2f}; {counted(int(self.round_trips.sum()), 'round trips')}, where states that "
            f"forget themselves between swaps would make {self.expected_round_trips * self.round_trips.size:.0f}"
        )


def _of_ladder(batch: Batch) -> Array:
    return batch["ladder"]


class TemperedRun(SpinRun):
    """Tempered chains on a binary target, and what they found.

    Attributes
    ----------
    log_z, log_z_se : float
        Logarithm of the sum of p(s) as `target.log_prob` gives it, and its standard error.
    log_z_bounds : tuple of float
        Forward and reverse estimates: on average the first is below log Z and the second above.
    ladder : Ladder
        The rungs: b, acceptance of swaps, mean and variance of log p, log Z, round trips.
    best : Best
        The most probable state at the end of a scan, on any rung.
    """

    _estimates = (*SpinRun._estimates, "log_z")

    @property
    def _b(self) -> Array:
        return self._data.constants["ladder.b"]

    @property
    def _offset(self) -> Array:
        return self._data.constants["ladder.offset"][:-1]

    @cached_property
    def _totals(self) -> Array:
        """Sums over all scans of all chains, (ROWS, rungs)."""
        return np.asarray(self._data.sums().of_chains(_of_ladder).sum(axis=0).reshape(ROWS, -1))

    @cached_property
    def log_z(self) -> float:
        return float(_log_z(self._totals, self._offset)[-1])

    @cached_property
    def log_z_se(self) -> float:
        return self._by_batches(self._sums)[1]

    def _by_batches(self, sums: Sums) -> tuple[float, float]:
        """Return log Z from full batches, and its standard error by leaving out each of them; NaN without any two."""
        if sums.batches * sums.chains < _FEWEST:
            return np.nan, np.nan
        full = sums.full(_of_ladder).reshape(-1, ROWS, self._b.size)
        total = full.sum(axis=0)
        without = np.array([_log_z(rest, self._offset)[-1] for rest in total - full])
        return float(_log_z(total, self._offset)[-1]), float(spread(without))

    @cached_property
    def log_z_bounds(self) -> tuple[float, float]:
        sums, scans = self._totals, self._data.recorded * self.chains
        with np.errstate(divide="ignore", invalid="ignore"):
            forward = np.sum(np.log(sums[UP, :-1] / scans) + self._offset)
            reverse = np.sum(self._offset - np.log(sums[DOWN, :-1] / scans))
        return float(forward), float(reverse)

    @cached_property
    def ladder(self) -> Ladder:
        sums, scans = self._totals, self._data.recorded * self.chains
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            mean = sums[VALUE] / sums[FINITE]
            columns = {
                "b": self._b,
                "acceptance": np.append(sums[SWAP, :-1] / scans, np.nan),
                "mean": mean - self._shift,
                "variance": np.maximum(sums[SQUARE] / sums[FINITE] - mean**2, 0.0),
                "log_z": _log_z(sums, self._offset) + (1.0 - self._b) * self._shift,
                "flow": sums[RISING] / (sums[RISING] + sums[FALLING]),
            }
        barrier = float(np.sum(1.0 - columns["acceptance"][:-1]))
        return Ladder(columns, barrier, self._trips, self._data.recorded, self.sampler.ladders)

    @property
    def _trips(self) -> NDArray[np.int64]:
        """Round trips of each chain, (chain,)."""
        return np.array([int(totals["trips"][0]) for totals in self._data.totals])

    def _autocorrelation_sweeps(self) -> float:
        """Return the longest autocorrelation time of the traces, or one for which a batch has two round trips.

        Modes are weighed by the states that come from the reference to each of them, which the traces may not show.
        """
        each = self.sampler.ladders * len(self._b) * self._data.recorded * self.chains / max(int(self._trips.sum()), 1)
        return max(super()._autocorrelation_sweeps(), float(_TRIPS_PER_BATCH / BATCH_TIMES * each))

    @property
    def _shift(self) -> float:
        """What V = log p - log q is more than log p where q is uniform on all allowed states; 0 where it is not."""
        return 0.0 if self.sampler.fields is not None else float(self.target.log_size)

    @property
    def best(self) -> Best:
        values = [float(totals["best_log_prob"][0]) for totals in self._data.totals]
        k = int(np.argmax(values))
        return Best(self._data.totals[k]["best"].copy(), values[k])

    @property
    def values(self) -> Array:
        """log p - log q of each rung for each draw, (chain, draw, rung)."""
        return self._trace("ladder") if self.draws_per_chain else np.zeros((self.chains, 0, self._b.size))

    def curve(self, b: ArrayLike) -> Curve:
        """Return log Z, and mean and variance of log p, at any b of the path, with standard errors.

        Each draw of each rung counts by its weight under b (MBAR); errors are those of blocks of draws.

        Parameters
        ----------
        b : array_like
            Values between 0 and 1.

        Examples
        --------
        >>> import bouncy
        >>> run = bouncy.sample(bouncy.MRF.ising((4, 4), coupling=0.5), "tempered", draws=500, seed=0)
        >>> run.curve([0.0, 1.0]).log_z.round(1).tolist()
        [11.1, 17.1]
        """
        asked = check_real_array("b", b)
        if not ((asked >= 0.0) & (asked <= 1.0)).all():
            raise ValueError(f"b must be between 0 and 1, got {b!r:.60}")
        values = self.values
        if values.shape[1] < _BLOCKS:
            raise ValueError(f"a curve needs {_BLOCKS} draws of each chain at least, and there are {values.shape[1]}")
        step = -(-values.size // _MOST_VALUES)
        found = _curves(values[:, ::step], self._b, self._offset, asked.ravel(), self._shift)
        full, parts = found[0], found[1:]
        errors = [spread(parts[:, row]) for row in range(3)]
        columns = [column for row in range(3) for column in (full[row], errors[row])]
        return Curve(asked, *(column.reshape(asked.shape) for column in columns))

    # Diagnostics

    def _diagnose(self) -> dict[str, Any]:
        report = super()._diagnose()
        ladder, low_high = self.ladder, self.log_z_bounds
        report["ladder"] = {
            "rungs": len(ladder),
            "ladders": self.sampler.ladders,
            "clusters": list(self.sampler.clusters or ()),
            "sweeps_per_swap": self.sampler.sweeps_per_swap,
            "scans_per_exchange": self.sampler.scans_per_exchange if self.sampler.clusters else None,
            "barrier": ladder.barrier,
            "round_trips": ladder.round_trips,
            "expected_round_trips": ladder.expected_round_trips,
            "smallest_acceptance": float(np.nanmin(ladder["acceptance"])) if self._data.recorded else np.nan,
            "log_z": self.log_z,
            "log_z_se": self.log_z_se,
            "log_z_bounds": low_high,
        }
        report["warnings"] += self._doubts(ladder) if self._data.recorded else []
        return report

    def _doubts(self, ladder: Ladder) -> list[str]:
        """Return sentences about a ladder that did not do what it is for."""
        found, trips = [], ladder.round_trips
        refused = ladder.barrier / (len(ladder) - 1)
        worst = int(np.nanargmin(ladder["acceptance"]))
        each = float(trips.sum()) / (ladder.ladders * len(ladder))
        if trips.sum() == 0:
            found.append(
                "no state went from the reference to the target and back: nothing shows that the ladder reaches all "
                "modes; run longer, or with more rungs"
            )
        elif trips.min() < _FEW_TRIPS:
            found.append(
                f"{counted(int(trips.min()), 'round trips')} of the worst ladder between reference and target: modes "
                "are weighed by so many visits at most; run longer"
            )
        elif each < ENOUGH_BATCHES:
            found.append(
                f"a state made {each:.2g} round trips between reference and target on average: where modes are far "
                f"apart standard errors may be too small; run {ENOUGH_BATCHES / each:.2g} times as long"
            )
        if np.isnan(self.log_z):
            found.append("log Z is not known: log p of two neighbouring rungs is too far apart; use more rungs")
        if ladder["acceptance"][worst] < _CUT_OFF:
            found.append(
                f"swaps of rungs {worst} and {worst + 1} are accepted with probability "
                f"{ladder['acceptance'][worst]:.2g}: the ladder is cut there; use more rungs"
            )
        elif refused > _CROWDED:
            found.append(
                f"{refused:.0%} of all swaps are refused: the barrier is larger than {len(ladder)} rungs can show, "
                "and grows with their number; use more of them"
            )
        if self._disagree_on_log_z():
            found.append("ladders disagree on log Z by more than their batches allow: its standard error is too small")
        return found

    def _disagree_on_log_z(self) -> bool:
        """Say whether log Z of single ladders differs by more than their own errors allow, by a Student test."""
        sums = self._sums
        if self.chains < 2 or sums.batches < _FEWEST:
            return False
        value, error = np.array([self._by_batches(sums.of([k])) for k in range(self.chains)]).T
        others = self.chains - 1
        difference = value - (value.sum() - value) / others
        spread = np.sqrt(error**2 + (np.sum(error**2) - error**2) / others**2)
        with np.errstate(divide="ignore", invalid="ignore"):
            z = np.abs(difference) / spread
        return bool((2.0 * stdtr(sums.batches - 1, -z) < _DISAGREE / self.chains).any())

    def _summary(self) -> Summary:
        ladder = self.ladder
        low, high = self.log_z_bounds
        swept = counted(self.sampler.sweeps_per_swap, "sweeps")
        pair = f", clusters exchanged at {len(self.sampler.clusters)} of them" if self.sampler.clusters else ""
        several = "" if self.sampler.ladders == 1 else f"{self.sampler.ladders} ladders of "
        return spin_summary(self, [
            f"{'log Z':>14}: {self.log_z:.4f} +- {self.log_z_se:.2g}, forward {low:.4f}, reverse {high:.4f}",
            f"{'ladder':>14}: {several}{counted(len(ladder), 'rungs')}{pair}, {swept} between swaps, "
            f"barrier {ladder.barrier:.1f}, {counted(int(ladder.round_trips.sum()), 'round trips')}",
        ])  # fmt: skip


def _log_z(sums: Array, offset: Array) -> Array:
    """Return log Z of each rung, (rungs,), by bridge sampling between neighbours, from sums over scans.

    NaN from where neighbours have too little in common: there the step would be whatever the warm-up took it for.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        beyond = np.log(sums[FORWARD, :-1]) - np.log(sums[REVERSE, :-1])
        steps = np.where(np.abs(beyond) < _FARTHEST, beyond + offset, np.nan)
    return np.concatenate([[0.0], np.cumsum(steps)])


def _curves(values: Array, b: Array, offset: Array, asked: Array, shift: float) -> Array:
    """Return log Z, mean and variance at some b: of all values, and without each block, (1 + blocks, 3, k)."""
    chains, n, rungs = values.shape
    per_chain = max(1, -(-_BLOCKS // chains))
    block = np.minimum(np.arange(n) * per_chain // n, per_chain - 1) + per_chain * np.arange(chains)[:, None]
    blocks = chains * per_chain
    step = np.diff(b)
    forward = expit(step * values[..., :-1] - offset)
    reverse = expit(offset - step * values[..., 1:])
    totals = np.array([[side[block == g].sum(axis=0) for side in (forward, reverse)] for g in range(blocks)])
    rest = np.concatenate([totals.sum(axis=0)[None], totals.sum(axis=0) - totals])
    with np.errstate(divide="ignore"):
        steps = np.log(rest[:, 0]) - np.log(rest[:, 1]) + offset
    log_z = np.concatenate([np.zeros((len(steps), 1)), np.cumsum(steps, axis=1)], axis=1)
    flat = values.reshape(-1, rungs)
    where = block.ravel()
    found = np.empty((1 + blocks, 3, asked.size))
    for g in range(1 + blocks):
        own = flat if g == 0 else flat[where != g - 1]
        v = own.ravel()
        v = v[np.isfinite(v)]
        mixture = logsumexp(np.outer(v, b) - log_z[g], axis=1)
        for j, x in enumerate(asked):
            weight = x * v - mixture
            top = weight.max()
            w = np.exp(weight - top)
            total = w.sum()
            mean = w @ v / total
            constant = top + np.log(total / len(own)) + (1.0 - x) * shift
            found[g, :, j] = constant, mean - shift, w @ (v - mean) ** 2 / total
    return found
