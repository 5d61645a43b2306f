"""Potentials whose law is known: exact draws, exact moments, and tests of a final state against both."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy import integrate, stats

from bouncy.clocks.contract import mean_speed
from bouncy.enumeration import exact, states
from bouncy.piecewise.potential import Cells, Potential
from bouncy.piecewise.targets.mixed_binary_gaussian import MixedBinaryGaussian
from helpers.replicates import state_counts
from helpers.replicates_piecewise import locate
from helpers.statistics import Outcome, chi_square_test, distribution_test

Array = NDArray[np.float64]
INF = np.inf


@dataclass(frozen=True)
class Law:
    """A potential and its exact law.

    Attributes
    ----------
    draw : `draw(generator, n)` returns independent draws of y, (n, d).
    mean, product : E[x], (d,), and E[x_i x_j], (d, d).
    final : `final(y, x, size)` yields tests of independent draws, each (n, d); a total variation or distance of `size`
        must be visible.
    hit_rate : expected wall hits per unit time in y / scale, where it is known.
    """

    potential: Potential
    draw: Callable[[np.random.Generator, int], Array]
    mean: Array
    product: Array
    final: Callable[[Array, Array, float], Iterator[Outcome]]
    hit_rate: float | None = None

    @property
    def d(self) -> int:
        return self.potential.cells.d

    @cached_property
    def scale(self) -> Array:
        return self.potential.natural_scale()

    def bounce_rates(self, y: Array) -> Array:
        """Return the expected bounces per unit time at each of n positions, (n,), for a velocity that is uniform.

        E[v.g]_+ = |g| E|v_1| / 2.
        """
        cells, rows = self.potential.cells, locate(self.potential.cells, y)
        x = cells.slope[rows] * y + cells.shift[rows]
        force = x @ self.potential.coupling - self.potential.linear
        g = (cells.slope[rows] * force + cells.tilt[rows] + cells.curvature[rows] * y) * self.scale
        return 0.5 * mean_speed(self.d) * np.sqrt((g * g).sum(axis=1))


def normal_law(d: int) -> Law:
    """N(0, I), with unit scale."""

    def final(y: Array, x: Array, size: float) -> Iterator[Outcome]:
        yield distribution_test(y, stats.norm.cdf, detect=size, name="coordinates")
        yield distribution_test((y * y).sum(axis=1), stats.chi2(d).cdf, detect=size, name="radius")

    potential = Potential(np.eye(d), np.zeros(d), Cells.alike(d, [-INF, INF]))
    return Law(potential, lambda g, n: g.standard_normal((n, d)), np.zeros(d), np.eye(d), final, 0.0)


def correlated_law() -> Law:
    """A Gaussian with a mean, correlated and of unequal widths."""
    P, h = np.array([[2.0, 1.2], [1.2, 5.0]]), np.array([1.0, -3.0])
    cov = np.linalg.inv(P)
    mean, L = cov @ h, np.linalg.cholesky(cov)

    def final(y: Array, x: Array, size: float) -> Iterator[Outcome]:
        white = np.linalg.solve(L, (x - mean).T).T
        yield distribution_test(white, stats.norm.cdf, detect=size, name="whitened coordinates")

    potential = Potential(P, h, Cells.alike(2, [-INF, INF]))
    draw = lambda g, n: mean + g.standard_normal((n, 2)) @ L.T  # noqa: E731
    return Law(potential, draw, mean, cov + np.outer(mean, mean), final, 0.0)


def truncated_law() -> Law:
    """A normal between two walls, of which one is far out."""
    low, high = -0.5, 1.5
    law = stats.truncnorm(low, high)

    def final(y: Array, x: Array, size: float) -> Iterator[Outcome]:
        yield distribution_test(y, law.cdf, detect=size, name="coordinate")

    def draw(generator: np.random.Generator, n: int) -> Array:
        return np.asarray(law.ppf(generator.random((n, 1))))

    potential = Potential(np.eye(1), np.zeros(1), Cells.alike(1, [low, high]))
    hits = 0.5 * (law.pdf(low) + law.pdf(high))
    return Law(potential, draw, np.array([law.mean()]), np.array([[law.moment(2)]]), final, float(hits))


def rejected(draw: Callable[[int], Array], accept: Callable[[Array], NDArray[np.bool_]], n: int) -> Array:
    """Return n draws that are accepted."""
    kept = np.empty((0, draw(1).shape[1]))
    while kept.shape[0] < n:
        proposals = draw(2 * n)
        kept = np.concatenate([kept, proposals[accept(proposals)]])
    return kept[:n]


def quadrant_law() -> Law:
    """A correlated Gaussian in a corner: one coordinate between two walls, one above a wall."""
    rho = 0.6
    cov = np.array([[1.0, rho], [rho, 1.0]])
    L = np.linalg.cholesky(cov)
    low, high = np.array([-0.5, 0.0]), np.array([1.0, INF])
    grid = [np.linspace(-0.5, 1.0, 5), np.array([0.0, 0.4, 0.9, 1.5, 9.0])]

    def density(y: float, x: float) -> float:
        return math.exp(-0.5 * (x * x - 2 * rho * x * y + y * y) / (1 - rho * rho))

    def moment(f: Callable[[float, float], float]) -> float:
        return float(integrate.dblquad(lambda y, x: f(x, y) * density(y, x), -0.5, 1.0, 0.0, 9.0, epsabs=1e-11)[0])

    total = moment(lambda x, y: 1.0)
    mean = np.array([moment(lambda x, y: x), moment(lambda x, y: y)]) / total
    xy, xx, yy = (moment(f) / total for f in (lambda x, y: x * y, lambda x, y: x * x, lambda x, y: y * y))
    boxes = np.array(
        [
            [integrate.dblquad(density, a, b, c, d, epsabs=1e-11)[0] / total for c, d in pairwise(grid[1])]
            for a, b in pairwise(grid[0])
        ]
    )

    def final(y: Array, x: Array, size: float) -> Iterator[Outcome]:
        counts, *_ = np.histogram2d(y[:, 0], y[:, 1], bins=grid)
        assert counts.sum() == y.shape[0]
        yield chi_square_test(counts, boxes / boxes.sum(), detect=size, smallest_expected=30, name="boxes")

    def draw(generator: np.random.Generator, n: int) -> Array:
        normal = lambda size: generator.standard_normal((size, 2)) @ L.T  # noqa: E731
        return rejected(normal, lambda y: ((y > low) & (y < high)).all(axis=1), n)

    potential = Potential(np.linalg.inv(cov), np.zeros(2), Cells.alike(2, np.stack([low, high], axis=1)))
    return Law(potential, draw, mean, np.array([[xx, xy], [xy, yy]]), final)


def jump_kink_flat_law() -> Law:
    """One coordinate with a hard wall, a kink, a flat cell, a jump up and an exponential tail after a jump down."""
    edges, tilt = np.array([-1.0, 0.0, 1.0, 2.0, INF]), np.array([-1.5, 0.0, 0.0, 1.25])
    constant = np.array([0.0, 0.0, 0.8, -2.6])
    cells = Cells.alike(1, edges, constant=constant, tilt=tilt)

    def integral(a: float, b: float, k: int) -> float:
        """Return the integral of exp(-constant - tilt y) from a to b."""
        if tilt[k] == 0.0:
            return math.exp(-constant[k]) * (b - a)
        return math.exp(-constant[k]) * (math.exp(-tilt[k] * a) - math.exp(-tilt[k] * b)) / tilt[k]

    weights = np.array([integral(edges[k], edges[k + 1], k) for k in range(4)])
    p = weights / weights.sum()

    def density(y: float) -> float:
        k = int(np.searchsorted(edges[1:-1], y, side="right"))
        return math.exp(-constant[k] - tilt[k] * y) / weights.sum()

    def quantile(u: Array) -> Array:
        """Return y within its cell: the inverse of an exponential or uniform distribution function."""
        k = np.minimum(np.searchsorted(np.cumsum(p), u, side="right"), 3)
        rest = (u - (np.cumsum(p) - p)[k]) * weights.sum() * np.exp(constant[k])
        y = edges[k] + rest
        bent = tilt[k] != 0.0
        a, b = edges[k][bent], tilt[k][bent]
        y[bent] = a - np.log1p(-b * rest[bent] * np.exp(b * a)) / b
        return np.asarray(y)

    def cdf(y: Array) -> Array:
        k = np.searchsorted(edges[1:-1], y, side="right")
        inside = np.array(
            [integral(edges[j], value, j) for j, value in zip(k.ravel(), y.ravel(), strict=True)]
        ).reshape(y.shape)
        return np.asarray((np.cumsum(p) - p)[k] + inside / weights.sum())

    def final(y: Array, x: Array, size: float) -> Iterator[Outcome]:
        counts = np.bincount(np.searchsorted(edges[1:-1], y[:, 0], side="right"), minlength=4)
        yield chi_square_test(counts, p, detect=size, name="cells")
        yield distribution_test(y, cdf, detect=size, name="coordinate")

    moments = [integrate.quad(lambda y, m=m: y**m * density(y), -1.0, 40.0, points=[0, 1, 2])[0] for m in (1, 2)]
    sides = [density(edge - side) for edge in (0.0, 1.0, 2.0) for side in (1e-12, 0.0)]
    hits = 0.5 * (density(-1.0) + sum(sides))
    potential = Potential(np.zeros((1, 1)), np.zeros(1), cells)
    return Law(
        potential, lambda g, n: quantile(g.random((n, 1))), np.array(moments[:1]), np.array([moments[1:]]), final, hits
    )


def spike_slab_law() -> Law:
    """Two coefficients that may be zero, for which (-c, c) stands; slabs are normal, and correlated by the data."""
    c, bend = 0.5, 0.6
    A, b = np.array([[1.5, -0.7], [-0.7, 1.0]]), np.array([1.2, 0.3])
    spike, slab = 0.4, 0.7  # constants of phi
    cells = Cells.alike(
        2,
        [-INF, -c, c, INF],
        slope=[1.0, 0.0, 1.0],
        shift=[c, 0.0, -c],
        constant=[slab + bend * c * c / 2, spike, slab + bend * c * c / 2],
        tilt=[bend * c, 0.0, -bend * c],
        curvature=[bend, 0.0, bend],
    )
    models = [np.array(model, bool) for model in ((0, 0), (1, 0), (0, 1), (1, 1))]
    covs = [np.linalg.inv(A[m][:, m] + bend * np.eye(m.sum())) for m in models]
    means = [cov @ b[m] for m, cov in zip(models, covs, strict=True)]
    log_weight = [
        0.5 * b[m] @ mu
        + 0.5 * np.linalg.slogdet(2 * math.pi * cov)[1]
        - slab * m.sum()
        + (math.log(2 * c) - spike) * (~m).sum()
        for m, mu, cov in zip(models, means, covs, strict=True)
    ]
    p = np.exp(log_weight) / np.exp(log_weight).sum()
    mean, product = np.zeros(2), np.zeros((2, 2))
    for share, m, mu, cov in zip(p, models, means, covs, strict=True):
        mean[m] += share * mu
        product[np.ix_(m, m)] += share * (cov + np.outer(mu, mu))

    def draw(generator: np.random.Generator, n: int) -> Array:
        y = generator.uniform(-c, c, (n, 2))
        which = generator.choice(4, n, p=p)
        for k in (1, 2, 3):
            x = generator.multivariate_normal(means[k], covs[k], (which == k).sum())
            y[np.ix_(which == k, models[k])] = x + np.copysign(c, x)
        return y

    def final(y: Array, x: Array, size: float) -> Iterator[Outcome]:
        which = (x != 0.0) @ np.array([1, 2])
        yield chi_square_test(np.bincount(which, minlength=4), p, detect=size, name="models")
        inside = y[x == 0.0]
        yield distribution_test(inside, stats.uniform(-c, 2 * c).cdf, detect=2 * size, name="inside the spike")
        for k in (1, 2, 3):
            residual = x[which == k][:, models[k]] - means[k]
            white = np.linalg.solve(np.linalg.cholesky(covs[k]), residual.T).T
            yield distribution_test(white, stats.norm.cdf, detect=3 * size, name=f"slab of model {k}")

    return Law(Potential(A, b, cells), draw, mean, product, final)


def mixed_law(augmentation: str, gaussians: bool = True) -> Law:
    """Spins coupled to two Gaussian variables, or by themselves."""
    M, r = np.array([[0.0, 0.4, -0.2], [0.4, 0.0, 0.5], [-0.2, 0.5, 0.0]]), np.array([0.3, -0.2, 0.1])
    P, h = np.array([[1.0, 0.3], [0.3, 2.0]]), np.array([0.2, -0.5])
    C = np.array([[0.5, -0.4], [0.0, 0.6], [0.3, 0.0]])
    options = {"precision": P, "linear": h, "coupling": C} if gaussians else {}
    target = MixedBinaryGaussian(M, r, augmentation=augmentation, **options)
    field = target.marginal()
    p, s = exact(field).probabilities, states(3).astype(np.float64)
    m = target.gaussians
    cov = np.linalg.inv(P)[:m, :m]
    L, mu = np.linalg.cholesky(cov), ((h + s @ C) @ np.linalg.inv(P))[:, :m]
    joint = np.concatenate([s, mu], axis=1)
    product = (p[:, None] * joint).T @ joint
    product[3:, 3:] += cov
    half = stats.halfnorm if augmentation == "gaussian" else stats.expon

    def draw(generator: np.random.Generator, n: int) -> Array:
        k = generator.choice(8, n, p=p)
        z = half.ppf(generator.random((n, 3)))
        return np.concatenate([s[k] * z, mu[k] + generator.standard_normal((n, m)) @ L.T], axis=1)

    def final(y: Array, x: Array, size: float) -> Iterator[Outcome]:
        signs = np.sign(x[:, :3]).astype(np.int8)
        yield chi_square_test(state_counts(signs), p, detect=size, name="spins")
        yield distribution_test(np.abs(y[:, :3]), half.cdf, detect=size, name="distances")
        if m:
            k = (signs > 0) @ np.array([1, 2, 4])
            white = np.linalg.solve(L, (x[:, 3:] - mu[k]).T).T
            yield distribution_test(white, stats.norm.cdf, detect=size, name="Gaussians given spins")

    return Law(target.potential, draw, p @ joint, product, final, target.rates[0])


LAWS: dict[str, Callable[[], Law]] = {
    "normal-1": lambda: normal_law(1),
    "normal-2": lambda: normal_law(2),
    "normal-5": lambda: normal_law(5),
    "correlated": correlated_law,
    "truncated": truncated_law,
    "quadrant": quadrant_law,
    "jump-kink-flat": jump_kink_flat_law,
    "spike-slab": spike_slab_law,
    "mixed": lambda: mixed_law("gaussian"),
    "mixed-exponential": lambda: mixed_law("exponential"),
    "spins": lambda: mixed_law("gaussian", gaussians=False),
    "spins-exponential": lambda: mixed_law("exponential", gaussians=False),
}
