"""What a continuous target is.

To add a target, add a file to `piecewise/targets/` with a subclass of `PiecewiseTarget` that says what its potential is
(see `potential.py`) and where a chain may start. There is no compiled code to write. A target whose potential is not
quadratic on cells is a `bouncy.Density`, or a `PathTarget` with a particle of its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bouncy._fingerprint import PROBES, described, probe_generator
from bouncy._labels import match
from bouncy._memory import read_only
from bouncy._samplable import Samplable
from bouncy._validation import check_real_array
from bouncy.piecewise.flight import new_flight
from bouncy.piecewise.points import new_points, ways_out
from bouncy.piecewise.potential import Cells, Potential, View, jumps_of, new_view
from bouncy.piecewise.weights import log_weight
from bouncy.tolls.budget import Budget

if TYPE_CHECKING:
    from bouncy.results.paths import PathRun

    _Base = Samplable[PathRun]
else:
    _Base = Samplable

Array = NDArray[np.float64]


class PathTarget(_Base, ABC):
    """A density of continuous or mixed variables, on which a particle can move. It never changes.

    What a user sees of a state are its values x, (d,), which are functions of the coordinates y that the particle
    moves in: the same for a Gaussian, spins for the sign of y, zero for an interval of y.
    """

    kind = "paths"
    # Whether the warm-up finds the scale, instead of the target.
    finds_scale = False

    @property
    @abstractmethod
    def cells(self) -> Cells:
        """The cells of each coordinate, between which the density may jump, and the values that they stand for."""

    @property
    @abstractmethod
    def scale(self) -> Array:
        """The length, (d,), by which each coordinate is measured: the particle has speed 1 in y / scale."""

    @abstractmethod
    def start(self, generator: np.random.Generator) -> Array:
        """Return coordinates y, (d,), of non-zero density for a chain to start from."""

    @cached_property
    def support(self) -> tuple[Array, Array]:
        """The least and the largest value that moves, of each coordinate, (d,); equal where none does."""
        cells = self.cells
        with np.errstate(invalid="ignore"):
            ends = np.sort([cells.slope * end + cells.shift for end in (cells.lower, cells.upper)], axis=0)
        moves = cells.slope != 0.0
        least = np.minimum.reduceat(np.where(moves, ends[0], np.inf), cells.first[:-1])
        most = np.maximum.reduceat(np.where(moves, ends[1], -np.inf), cells.first[:-1])
        still = least > most
        return read_only(np.where(still, 0.0, least)), read_only(np.where(still, 0.0, most))

    @property
    def default_sampler(self) -> str:
        """Name of the sampler that is used where none is asked for: the one with the best worst case."""
        return "bps"

    @property
    def rates(self) -> tuple[float | None, float | None]:
        """Expected wall hits and bounces per unit time at stationarity, where they are known in closed form.

        Time is that of a particle of speed 1 in y / scale.
        """
        return None, None

    @property
    def refreshment_rate(self) -> float:
        """How often the velocity of the particle is drawn anew in a unit of time, where nothing else is asked for.

        Means would do with less; |x|^2 takes d refreshments to be forgotten, which at this rate are 3 sqrt(d) sweeps.
        """
        return 0.1

    @abstractmethod
    def view(self, scale: Array | None = None) -> Any:
        """Return the target as a `NamedTuple` of arrays for compiled loops; another scale keeps a particle in place."""

    @abstractmethod
    def particle(
        self, y: Array, v: Array, row: NDArray[np.int64], rate: float, rng: NDArray[np.uint64], toll: Budget
    ) -> Any:
        """Return a particle at y in the cells `row`, with a velocity v of length 1 that is refreshed at a rate."""

    @property
    def layout(self) -> Mapping[str, NDArray[Any]]:
        """What must stay as it is where the target of a particle changes (`bouncy.Within`), by name."""
        cells = {name: getattr(self.cells, name) for name in ("first", "lower", "upper", "slope", "shift")}
        return MappingProxyType(cells)

    @abstractmethod
    def log_prob(self, x: ArrayLike) -> NDArray[np.float64]:
        """Return the unnormalised log-density of values of shape (..., d), as shape (...); -inf outside the support.

        `run.log_prob` is this function of the draws.
        """

    def check_values(self, name: str, x: ArrayLike) -> Array:
        """Return values of shape (..., d) as an array of floats; series and data frames are matched by labels."""
        values = check_real_array(name, match(name, x, self))
        if values.ndim == 0 or values.shape[-1] != self.d:
            raise ValueError(
                f"{name} must have shape (..., {self.d}), one entry per variable, got shape {values.shape}"
            )
        return values

    def check_states(self, name: str, states: ArrayLike) -> Array:
        """Return values of shape (..., d) and of non-zero density, or raise."""
        values = self.check_values(name, states)
        for row in values.reshape(-1, self.d):
            if self.log_prob(row) == -np.inf:
                raise ValueError(f"{name} must be a state of non-zero density, got {row.tolist()!s:.120}")
        return values

    def description(self) -> dict[str, Any]:
        """Return class, size, labels and log p at sixteen starts."""
        cells, generator = self.cells, probe_generator()
        starts = [self.start(generator) for _ in range(PROBES)]
        rows = [cells.locate(y) for y in starts]
        probes = [cells.slope[row] * y + cells.shift[row] for y, row in zip(starts, rows, strict=True)]
        return described(self, np.array(probes))

    def __copy__(self) -> PathTarget:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> PathTarget:
        """Return the target itself: it never changes, and may be large."""
        return self


class PiecewiseTarget(PathTarget):
    """A density proportional to exp(-U) whose potential is quadratic on each cell of an axis-aligned partition."""

    @property
    def default_sampler(self) -> str:
        return "gibbs"

    @cached_property
    @abstractmethod
    def potential(self) -> Potential:
        """The potential U(y)."""

    @property
    def cells(self) -> Cells:
        return self.potential.cells

    @cached_property
    def scale(self) -> Array:
        """The length, (d,), by which each coordinate is measured: the particle moves in y / scale."""
        return read_only(self.potential.natural_scale())

    def quadratic_part(self) -> Any:
        return self.potential.coupling

    def _couplings(self) -> tuple[str, Any]:
        return "quadratic form A", self.potential.coupling

    @property
    def metric_root(self) -> Array | None:
        """A root, (d, d), of the metric K = root'root in which the particle moves; None where that is y / scale."""
        return None

    def view(self, scale: Array | None = None) -> View:
        return new_view(self.potential, self.scale if scale is None else scale)

    def particle(
        self, y: Array, v: Array, row: NDArray[np.int64], rate: float, rng: NDArray[np.uint64], toll: Budget
    ) -> Any:
        has_points = not np.isnan(ways_out(self.cells, *jumps_of(self.cells))).all()
        return new_flight(y / self.scale, v, row, rate, rng, toll, new_points(self.d, has_points))

    def log_prob(self, x: ArrayLike) -> NDArray[np.float64]:
        """Return the unnormalised log-density of values of shape (..., d), as shape (...); -inf outside the support.

        Where a value has a probability of its own (zero in spike and slab, a spin), this is the logarithm of that
        probability times the density of the other values, up to one constant.
        """
        values = self.check_values("x", x)
        rows = values.reshape(-1, self.d)
        out = np.array([self._log_prob(row) for row in rows])
        return out.reshape(values.shape[:-1])[()]

    def _log_prob(self, x: Array) -> float:
        cells = self.potential.cells
        try:
            _, rows = cells.coordinates(x)
        except ValueError:
            return -np.inf
        weights = sum(log_weight(cells, i, row, x[i]) for i, row in enumerate(rows))
        return float(weights - x @ (0.5 * (self.potential.coupling @ x) - self.potential.linear))
