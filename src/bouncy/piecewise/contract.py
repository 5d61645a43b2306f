"""What a continuous target is.

To add a target, add a file to `piecewise/targets/` with a subclass of `PiecewiseTarget` that says what its potential is
(see `potential.py`) and where a chain may start. There is no compiled code to write.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bouncy._fingerprint import PROBES, described, probe_generator
from bouncy._labels import match
from bouncy._memory import read_only
from bouncy._samplable import Samplable
from bouncy._validation import check_real_array
from bouncy.piecewise.density import log_weight
from bouncy.piecewise.potential import Potential, View, new_view

if TYPE_CHECKING:
    from bouncy.results.paths import PathRun

    _Base = Samplable[PathRun]
else:
    _Base = Samplable

Array = NDArray[np.float64]


class PiecewiseTarget(_Base, ABC):
    """A density proportional to exp(-U) whose potential is quadratic on each cell of an axis-aligned partition.

    A target never changes. What a user sees of a state are its values x, (d,), which are functions of the coordinates
    y that the particle moves in: the same for a Gaussian, spins for the sign of y, zero for an interval of y.
    """

    kind = "paths"

    @cached_property
    @abstractmethod
    def potential(self) -> Potential:
        """The potential U(y)."""

    @abstractmethod
    def start(self, generator: np.random.Generator) -> Array:
        """Return coordinates y, (d,), of finite potential for a chain to start from."""

    @cached_property
    def scale(self) -> Array:
        """The length, (d,), by which each coordinate is measured: the particle moves in y / scale."""
        return read_only(self.potential.natural_scale())

    @property
    def rates(self) -> tuple[float | None, float | None]:
        """Expected wall hits and bounces per unit time at stationarity, where they are known in closed form.

        Time is that of a particle of speed 1 in y / scale.
        """
        return None, None

    def view(self) -> View:
        """Return the potential in scaled coordinates, as arrays for compiled loops."""
        return new_view(self.potential, self.scale)

    def log_prob(self, x: ArrayLike) -> NDArray[np.float64]:
        """Return the unnormalised log-density of values of shape (..., d), as shape (...); -inf outside the support.

        Where a value has a probability of its own (zero in spike and slab, a spin), this is the logarithm of that
        probability times the density of the other values, up to one constant. `run.log_prob` is this function of the
        draws.
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
        cells, generator = self.potential.cells, probe_generator()
        starts = [self.start(generator) for _ in range(PROBES)]
        rows = [cells.locate(y) for y in starts]
        probes = [cells.slope[row] * y + cells.shift[row] for y, row in zip(starts, rows, strict=True)]
        return described(self, np.array(probes))

    def __copy__(self) -> PiecewiseTarget:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> PiecewiseTarget:
        """Return the target itself: it never changes, and may be large."""
        return self
