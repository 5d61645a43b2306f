"""Potentials whose law is known: exact draws, exact moments, and tests of a final state against both."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import integrate, stats

from bouncy.clocks.contract import mean_speed
from bouncy.enumeration import exact, states
from bouncy.piecewise.box import Box
from bouncy.piecewise.potential import Cells, Potential, new_view
from bouncy.piecewise.targets.mixed_binary_gaussian import MixedBinaryGaussian
from helpers.replicates import state_counts
from helpers.replicates_piecewise import locate
from helpers.statistics import Outcome, chi_square_test, distribution_test
from piecewise.engine import box_of

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
    in_metric : whether the particle is the one that moves in the metric of the covariance.
    """

    potential: Potential
    draw: Callable[[np.random.Generator, int], Array]
    mean: Array
    product: Array
    final: Callable[[Array, Array, float], Iterator[Outcome]]
    hit_rate: float | None = None
    in_metric: bool = False

    @property
    def box(self) -> Box | None:
        """What a particle in the metric of the covariance needs to know, if that is the one to be tested."""
        return box_of(self.potential, self.scale) if self.in_metric else None

    @property
    def root(self) -> Array:
        """The root of the metric, (d, d): root'root is the identity in y / scale, or the covariance."""
        return np.diag(self.scale) if self.box is None else self.box.root

    @property
    def d(self) -> int:
        return self.potential.cells.d

    @cached_property
    def scale(self) -> Array:
        return self.potential.natural_scale()

    def paces(self, y: Array) -> Array:
        """Return the refreshments at each of n positions, (n,), relative to those of a particle all of which moves."""
        at_point = ~np.isnan(new_view(self.potential, self.scale).way_out)[locate(self.potential.cells, y)]
        return np.sqrt(np.maximum((~at_point).sum(axis=1), 1) / self.d)

    def bounce_rates(self, y: Array) -> Array:
        """Return the expected bounces per unit time at each of n positions, (n,), for a velocity that is uniform.

        E[v.g]_+ = |g| E|v_1| / 2, with the length of the gradient in the metric.
        """
        cells, rows = self.potential.cells, locate(self.potential.cells, y)
        x = cells.slope[rows] * y + cells.shift[rows]
        force = x @ self.potential.coupling - self.potential.linear
        g = (cells.slope[rows] * force + cells.tilt[rows] + cells.curvature[rows] * y) @ self.root.T
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
        for k in (1, 2, 3):
            residual = x[which == k][:, models[k]] - means[k]
            white = np.linalg.solve(np.linalg.cholesky(covs[k]), residual.T).T
            yield distribution_test(white, stats.norm.cdf, detect=3 * size, name=f"slab of model {k}")

    potential = Potential(A, b, cells)
    # Zero is come to from both sides and left to both, at the density of what is not zero there.
    beside = np.zeros(2)
    for share, m, mu, cov in zip(p, models, means, covs, strict=True):
        beside[m] += share * stats.norm.pdf(0.0, mu, np.sqrt(np.diag(cov)))
    hits = 2.0 * mean_speed(2) * float(beside @ potential.natural_scale())
    return Law(potential, draw, mean, product, final, hits)


def points_law() -> Law:
    """A point between two densities of different heights, and one at the end of a half-line, correlated."""
    A, b = np.array([[1.5, -0.7], [-0.7, 1.0]]), np.array([0.5, 0.3])
    heights, masses = np.array([1.0, 0.4]), np.array([0.9, 0.7])  # beside the first point, and of both points
    c = 0.5  # lengths of the points are 2 c and c
    first = Cells.alike(1, [-INF, -c, c, INF], slope=[1.0, 0.0, 1.0], shift=[c, 0.0, -c],
                        constant=-np.log([heights[0], masses[0] / (2 * c), heights[1]]))  # fmt: skip
    second = Cells.alike(1, [-c, 0.0, INF], slope=[0.0, 1.0], constant=[-math.log(masses[1] / c), 0.0])
    potential = Potential(A, b, Cells.joined([first, second]))
    cov = np.linalg.inv(A)
    mean = cov @ b
    deviation = 1.0 / np.sqrt(np.diag(A))

    def height(x: Array) -> Array:
        """Return the weight of values beside the points, relative to a normal, (n, 2)."""
        return np.where(x < 0.0, [heights[0], 0.0], [heights[1], 1.0])

    def normals(generator: np.random.Generator, n: int) -> Array:
        """Return draws of the law without weights, of all models as often as their normals weigh, (n, 2)."""
        whole = 2 * math.pi * math.sqrt(np.linalg.det(cov)) * math.exp(0.5 * b @ mean)
        alone = masses[::-1] * math.sqrt(2 * math.pi) * deviation * np.exp(0.5 * (b * deviation) ** 2)
        weight = np.array([masses.prod(), *alone, whole])
        which = generator.choice(4, n, p=weight / weight.sum())
        x = np.zeros((n, 2))
        for i in (0, 1):
            x[which == i + 1, i] = b[i] / A[i, i] + deviation[i] * generator.standard_normal((which == i + 1).sum())
        x[which == 3] = generator.multivariate_normal(mean, cov, (which == 3).sum())
        return np.column_stack([x, generator.random(n)])

    def draw(generator: np.random.Generator, n: int) -> Array:
        accept = lambda z: z[:, 2] < np.where(z[:, :2] == 0.0, 1.0, height(z[:, :2])).prod(axis=1)  # noqa: E731
        x = rejected(lambda size: normals(generator, size), accept, n)[:, :2]
        inside = generator.random((n, 2)) * [2 * c, c] - c
        return np.where(x == 0.0, inside, x + np.array([c, 0.0]) * np.sign(x))

    def density(x: float, z: float) -> float:
        v = np.array([x, z])
        return float(np.exp(b @ v - 0.5 * v @ A @ v))

    sides = [(-9.0, 0.0, heights[0]), (0.0, 9.0, heights[1])]

    def moment(f: Callable[[float, float], float]) -> float:
        """Return the integral of f over points, half-lines and quadrants."""
        total = masses.prod() * f(0.0, 0.0)
        total += masses[0] * integrate.quad(lambda z: f(0.0, z) * density(0.0, z), 0.0, 9.0)[0]
        for low, high, h in sides:
            total += masses[1] * h * integrate.quad(lambda x: f(x, 0.0) * density(x, 0.0), low, high)[0]
            total += h * integrate.dblquad(lambda z, x: f(x, z) * density(x, z), low, high, 0.0, 9.0, epsabs=1e-9)[0]
        return float(total)

    total = moment(lambda x, z: 1.0)
    x_mean, z_mean, xx, xz, zz = (
        moment(f) / total
        for f in (
            lambda x, z: x,
            lambda x, z: z,
            lambda x, z: x * x,
            lambda x, z: x * z,
            lambda x, z: z * z,
        )
    )
    signs = [(-1, lambda v: v < 0.0), (0, lambda v: v == 0.0), (1, lambda v: v > 0.0)]
    p = np.array([moment(lambda x, z, s=s, t=t: float(s(x) and t(z))) for _, s in signs for _, t in signs[1:]]) / total

    def given(i: int, sign: int, other: Array) -> Any:
        """Return the law of value i on one side of its point, given the other value."""
        center, spread = (b[i] - A[0, 1] * other) / A[i, i], deviation[i]
        ends = (-INF, -center / spread) if sign < 0 else (-center / spread, INF)
        return stats.truncnorm(*ends, loc=center, scale=spread)

    def final(y: Array, x: Array, size: float) -> Iterator[Outcome]:
        counts = [((np.sign(x[:, 0]) == s) & (np.sign(x[:, 1]) == t)).sum() for s in (-1, 0, 1) for t in (0, 1)]
        yield chi_square_test(np.array(counts), p, detect=size, name="signs")
        for i, sign in ((0, -1), (0, 1), (1, 1)):
            own = x[np.sign(x[:, i]) == sign]
            u = given(i, sign, own[:, 1 - i]).cdf(own[:, i])
            yield distribution_test(u, stats.uniform.cdf, detect=2 * size, name=f"value {i} on side {sign}")

    # Densities of the values at their points from the right.
    at_x = heights[1] * (masses[1] + integrate.quad(lambda z: density(0.0, z), 0.0, 9.0)[0]) / total
    at_z = masses[0] + sum(h * integrate.quad(lambda x: density(x, 0.0), low, high)[0] for low, high, h in sides)
    rates = np.array([at_x / heights[1] * (0.5 * heights.sum() + heights.max()), 1.5 * at_z / total])
    hits = mean_speed(2) * float(rates @ potential.natural_scale())
    return Law(potential, draw, np.array([x_mean, z_mean]), np.array([[xx, xz], [xz, zz]]), final, hits)


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
    "points": points_law,
    **{
        f"{name}-metric": lambda build=build: replace(build(), in_metric=True)
        for name, build in {
            "normal": lambda: normal_law(2),
            "correlated": correlated_law,
            "truncated": truncated_law,
            "quadrant": quadrant_law,
        }.items()
    },
    "mixed": lambda: mixed_law("gaussian"),
    "mixed-exponential": lambda: mixed_law("exponential"),
    "spins": lambda: mixed_law("gaussian", gaussians=False),
    "spins-exponential": lambda: mixed_law("exponential", gaussians=False),
}
