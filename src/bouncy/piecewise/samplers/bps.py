"""The bouncy particle sampler of continuous and mixed targets (Pakman 2017, sections 1 and 2)."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bouncy._random import new_state
from bouncy._samplable import Samplable
from bouncy._validation import check_nonnegative
from bouncy.clocks.gaussian import GAUSSIAN
from bouncy.piecewise.contract import PathTarget, PiecewiseTarget
from bouncy.piecewise.metric_flight import MetricFlight
from bouncy.piecewise.targets._normal import Normal
from bouncy.samplers.contract import Named, NotErgodicWarning, PathSampler
from bouncy.tolls.budget import new_budget

Array = NDArray[np.float64]

# Each costs a product with the matrix: with more, a sweep would never end.
_MOST_REFRESHMENTS = 1000.0


@dataclass(frozen=True)
class BPS(PathSampler):
    """Bouncy particle sampler for all continuous and mixed targets.

    A particle moves on straight lines, reflects off the gradient when it has climbed as much as its budget allows, and
    at a discontinuity crosses with probability min(1, e^-jump) or turns back. Event times are exact: in closed form
    where the potential is quadratic on each cell of an axis-aligned partition, and found to rounding for a
    `bouncy.Density`. A coefficient of a `bouncy.SpikeSlab` that comes to zero stays there for an exponential time. On a
    dense Gaussian with strong correlations velocities and reflections are those of the metric of its covariance.

    Parameters
    ----------
    refreshment : float, optional
        Expected number of times per sweep at which the velocity is drawn anew. By default once in the time in which the
        particle moves by ten natural lengths of the target, which is about 0.31 sqrt(d) per sweep: 1 at d = 10, 3.1 at
        d = 100; in the metric of a covariance twice as often. Fewer let the particle fly further, which is good for
        means; more make |x|^2 mix faster. Zero is the sampler of the paper; on a Gaussian it then stays in a plane, and
        a `NotErgodicWarning` is given. While coefficients that are zero rest, it is less by the root of the share of
        those that move.

    Notes
    -----
    `run.mean`, `run.variance`, `run.covariance`, `run.inclusion` and the probabilities of cells are averages over the
    ends of sweeps, of expectations of each variable given all others. Those of a `bouncy.Density`, whose conditional
    laws are not known, are integrals over the path, as `run.path_mean` and so on always are.

    References
    ----------
    Pakman, "Binary Bouncy Particle Sampler", arXiv:1711.00922 (2017). Bierkens, Grazzi, van der Meulen & Schauer,
    "Sticky PDMP samplers for sparse and local inference problems", arXiv:2103.08478 (2023).

    Examples
    --------
    >>> import bouncy
    >>> bouncy.piecewise.BPS(refreshment=1.0).name
    'bps'
    """

    refreshment: float | None = None

    def __post_init__(self) -> None:
        if self.refreshment is None:
            return
        object.__setattr__(self, "refreshment", check_nonnegative("refreshment", self.refreshment))
        if self.refreshment > _MOST_REFRESHMENTS:
            raise ValueError(
                f"refreshment is {self.refreshment:g} per sweep; expected at most {_MOST_REFRESHMENTS:g}: nothing "
                "would happen between them (the default is about 0.31 sqrt(d))"
            )
        if self.refreshment == 0.0:
            warnings.warn(
                "without refreshment the sampler is not ergodic on every target (on a Gaussian it stays in a plane); "
                "use it to study the paper, not for results",
                NotErgodicWarning,
                stacklevel=3,
            )

    @property
    def name(self) -> str:
        return "bps"

    def records_expectations(self, target: Samplable[Any]) -> bool:
        return isinstance(target, PiecewiseTarget)

    def rates(self, target: PathTarget) -> tuple[float | None, float | None]:
        return target.rates

    def start(self, target: PathTarget, y: Array, row: NDArray[np.int64], seed: np.random.SeedSequence) -> Any:
        """Return a particle with a velocity that is uniform on the sphere."""
        velocity_seed, path_seed, toll_seed = seed.spawn(3)
        v = np.random.default_rng(velocity_seed).standard_normal(target.d)
        v /= np.sqrt(v @ v)
        toll = new_budget(new_state(toll_seed))
        rate = refreshment_rate(self.refreshment, target)
        return target.particle(y, v, row, rate, new_state(path_seed), toll)

    def retarget(self, motion: Any, target: PathTarget) -> Any:
        """Return the particle at the same place; one in the metric of a covariance is given another, and velocity."""
        if not isinstance(motion, MetricFlight):
            return motion
        if not isinstance(target, Normal):
            raise ValueError(f"a Gaussian became a {type(target).__name__} between two visits; expected a Gaussian")
        box = target.box()._replace(scale=motion.box.scale)
        return motion._replace(box=box, v=np.full(target.d, np.nan))


def refreshment_rate(per_sweep: float | None, target: PathTarget) -> float:
    """Return the refreshments per unit time of a particle, given those per sweep, or None for the default."""
    return target.refreshment_rate if per_sweep is None else per_sweep / GAUSSIAN.sweep_time(target.d)


NAMED = (Named(BPS(), "samples every continuous and mixed target; the default of a `Density`", "#332288"),)
