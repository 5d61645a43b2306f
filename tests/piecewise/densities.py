"""Densities of functions whose law is known: exact draws, closed forms or quadrature, and tests of a final state.

Lengths of the variables (`scale`) differ from each other and from the widths of the densities, and normals of walls are
not of length 1, so that a reflection in another metric is a wrong one.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, special, stats

import bouncy
from bouncy import Density
from bouncy.clocks.contract import mean_speed
from helpers.statistics import Outcome, chi_square_test, distribution_test
from piecewise.laws import rejected

Array = NDArray[np.float64]
INF = np.inf


@dataclass(frozen=True)
class DensityLaw:
    """A density and its exact law.

    Attributes
    ----------
    draw : `draw(generator, n)` returns independent draws of y, (n, d).
    final : `final(y, size)` yields tests of independent draws, (n, d); a total variation or distance of `size` must be
        visible.
    cell : (n,) probability of each cell
    hit_rate : expected wall hits per unit time of a particle of speed 1 in y / scale.
    mean, product : E[y], (d,), and E[y_i y_j], (d, d); None where averages of y are not near to normal.
    slope : the gradient of log p, of shape (n, d) for draws (n, d), where the target has none.
    """

    target: Density
    draw: Callable[[np.random.Generator, int], Array]
    final: Callable[[Array, float], Iterator[Outcome]]
    cell: Array
    hit_rate: float
    mean: Array | None = None
    product: Array | None = None
    slope: Callable[[Array], Array] | None = None

    @property
    def d(self) -> int:
        return self.target.d

    def bounce_rates(self, y: Array) -> Array:
        """Return the expected bounces per unit time at each of n positions, (n,): E[w.g]_+ = |g| E|w_1| / 2."""
        slope = self.target.gradient if self.slope is None else self.slope
        g = slope(y) * self.target.scale
        return 0.5 * mean_speed(self.d) * np.sqrt((g * g).sum(axis=1))


class Line:
    """A density of one variable, by the midpoint rule on a fine grid that has the given breaks among its ends."""

    def __init__(self, log_prob: Callable[[Array], Array], breaks: ArrayLike, pieces: int = 100_000) -> None:
        ends = np.asarray(breaks, np.float64)
        step = (ends[-1] - ends[0]) / pieces
        parts = [np.linspace(a, b, int(np.ceil((b - a) / step)) + 1)[:-1] for a, b in pairwise(ends)]
        self._ends = np.append(np.concatenate(parts), ends[-1])
        self._middle = 0.5 * (self._ends[1:] + self._ends[:-1])
        weight = np.exp(log_prob(self._middle)) * np.diff(self._ends)
        self._log_prob, self._total = log_prob, weight.sum()
        self._weight = weight / self._total
        self._below = np.append(0.0, np.cumsum(self._weight))
        self._below /= self._below[-1]

    def cdf(self, y: Array) -> Array:
        return np.interp(y, self._ends, self._below)

    def quantile(self, u: Array) -> Array:
        return np.interp(u, self._below, self._ends)

    def moment(self, k: int) -> float:
        return float(self._weight @ self._middle**k)

    def density(self, y: float) -> float:
        """Return the density just below and just above y, added up."""
        return float(np.exp(self._log_prob(np.array([y - 1e-9, y + 1e-9]))).sum() / self._total)

    def masses(self, inner: ArrayLike) -> Array:
        """Return the probabilities of the cells between some edges."""
        return np.diff(self.cdf(np.array([-INF, *np.atleast_1d(inner), INF])))


def edge_hits(d: int, scale: float, density: float) -> float:
    """Return hits per unit time of an edge, with the density of its coordinate on both sides of it added up."""
    return 0.5 * mean_speed(d) * scale * density


# --- one variable -----------------------------------------------------------------------------------------------------


def quartic_log_prob(y):
    return -0.25 * y[0] ** 4


def quartic_gradient(y, out):
    out[0] = -(y[0] ** 3)


def quartic_law() -> DensityLaw:
    """U = y^4 / 4, so that U ~ Gamma(1/4): flat in the middle, steep outside."""
    law = stats.gamma(0.25)
    target = Density(1, quartic_log_prob, quartic_gradient, convex=True, scale=[0.6])

    def draw(generator: np.random.Generator, n: int) -> Array:
        return generator.choice([-1.0, 1.0], (n, 1)) * (4.0 * generator.gamma(0.25, size=(n, 1))) ** 0.25

    def final(y: Array, size: float) -> Iterator[Outcome]:
        cdf = lambda t: 0.5 + 0.5 * np.sign(t) * law.cdf(0.25 * t**4)  # noqa: E731
        yield distribution_test(y, cdf, detect=size, name="coordinate")

    square = 2.0 * special.gamma(0.75) / special.gamma(0.25)
    return DensityLaw(target, draw, final, np.ones(1), 0.0, np.zeros(1), np.array([[square]]))


def double_well_log_prob(y, data):
    height, tilt = data
    return -height * (y[0] * y[0] - 1.0) ** 2 - tilt * y[0]


def double_well_gradient(y, out, data):
    height, tilt = data
    out[0] = -4.0 * height * y[0] * (y[0] * y[0] - 1.0) - tilt


def double_well_law() -> DensityLaw:
    """Two wells of unequal depth, with an edge between them at which nothing happens."""
    height, tilt, edge = 1.5, 0.3, 0.2
    line = Line(lambda y: -height * (y * y - 1.0) ** 2 - tilt * y, [-4.0, edge, 4.0])
    target = Density(1, double_well_log_prob, double_well_gradient, data=(height, tilt), edges={0: [edge]}, scale=[1.3])

    def final(y: Array, size: float) -> Iterator[Outcome]:
        yield distribution_test(y, line.cdf, detect=size, name="coordinate")

    return DensityLaw(
        target,
        lambda generator, n: line.quantile(generator.random((n, 1))),
        final,
        line.masses(edge),
        edge_hits(1, 1.3, line.density(edge)),
        np.array([line.moment(1)]),
        np.array([[line.moment(2)]]),
    )


def student_log_prob(y, widths):
    square = 0.0
    for i in range(y.size):
        square += (y[i] / widths[i]) ** 2
    return -0.5 * (3.0 + y.size) * np.log1p(square / 3.0)


def student_gradient(y, out, widths):
    square = 0.0
    for i in range(y.size):
        square += (y[i] / widths[i]) ** 2
    for i in range(y.size):
        out[i] = -(3.0 + y.size) * y[i] / widths[i] ** 2 / (3.0 + square)


def student_law(widths: ArrayLike, edges: dict[int, list[float]], scale: ArrayLike) -> DensityLaw:
    """Student's t with 3 degrees of freedom, whose fourth moment is infinite: cells and distributions are tested."""
    widths, lengths = np.asarray(widths, np.float64), np.asarray(scale, np.float64)
    d = widths.size
    target = Density(d, student_log_prob, student_gradient, data=widths, edges=edges, scale=lengths)
    law = stats.t(3)
    ends = [np.array([-INF, *edges[i], INF]) / widths[i] for i in range(d)]
    hits = [
        edge_hits(d, lengths[i], 2.0 * law.pdf(edge / widths[i]) / widths[i]) for i in range(d) for edge in edges[i]
    ]

    def draw(generator: np.random.Generator, n: int) -> Array:
        return widths * generator.standard_normal((n, d)) / np.sqrt(generator.chisquare(3, (n, 1)) / 3.0)

    def final(y: Array, size: float) -> Iterator[Outcome]:
        yield distribution_test(y / widths, law.cdf, detect=size, name="coordinates")
        yield distribution_test(((y / widths) ** 2).sum(axis=1) / d, stats.f(d, 3).cdf, detect=size, name="radius")

    return DensityLaw(target, draw, final, np.concatenate([np.diff(law.cdf(e)) for e in ends]), sum(hits))


# --- several variables ------------------------------------------------------------------------------------------------


def laplace_log_prob(y, widths):
    return -np.abs(y[0]) / widths[0] - np.abs(y[1]) / widths[1]


def laplace_gradient(y, out, widths):
    for i in range(2):
        out[i] = -1.0 / widths[i] if y[i] > 0.0 else 1.0 / widths[i]


def laplace_law() -> DensityLaw:
    """Two Laplace variables of unequal widths; their kinks at zero are edges."""
    widths, scale = np.array([0.5, 2.0]), np.array([1.0, 1.5])
    target = Density(
        2, laplace_log_prob, laplace_gradient, data=widths, edges={0: [0.0], 1: [0.0]}, convex=True, scale=scale
    )

    def final(y: Array, size: float) -> Iterator[Outcome]:
        yield distribution_test(y / widths, stats.laplace.cdf, detect=size, name="coordinates")
        total = np.abs(y / widths).sum(axis=1)
        yield distribution_test(total, stats.gamma(2).cdf, detect=size, name="sum of sizes")

    hits = sum(edge_hits(2, scale[i], 1.0 / widths[i]) for i in range(2))
    return DensityLaw(
        target,
        lambda generator, n: widths * generator.laplace(size=(n, 2)),
        final,
        np.full(4, 0.5),
        hits,
        np.zeros(2),
        np.diag(2.0 * widths**2),
    )


def mixture_log_prob(y, data):
    weights, means, widths = data
    first = second = 0.0
    for i in range(2):
        first -= 0.5 * ((y[i] - means[0, i]) / widths[0, i]) ** 2 + np.log(widths[0, i])
        second -= 0.5 * ((y[i] - means[1, i]) / widths[1, i]) ** 2 + np.log(widths[1, i])
    return np.logaddexp(np.log(weights[0]) + first, np.log(weights[1]) + second)


def mixture_gradient(y, out, data):
    weights, means, widths = data
    odds = np.log(weights[1] / weights[0])
    for i in range(2):
        odds += 0.5 * ((y[i] - means[0, i]) / widths[0, i]) ** 2 + np.log(widths[0, i])
        odds -= 0.5 * ((y[i] - means[1, i]) / widths[1, i]) ** 2 + np.log(widths[1, i])
    share = 1.0 / (1.0 + np.exp(-odds))
    for i in range(2):
        out[i] = -(1.0 - share) * (y[i] - means[0, i]) / widths[0, i] ** 2
        out[i] -= share * (y[i] - means[1, i]) / widths[1, i] ** 2


def mixture_law(gradient: bool = True) -> DensityLaw:
    """Two normal components of unequal weights and shapes; without a gradient, too."""
    weights, means = np.array([0.35, 0.65]), np.array([[-1.5, 0.0], [1.0, 1.0]])
    widths = np.array([[0.5, 1.0], [1.0, 0.6]])
    options: dict[str, Any] = {"data": (weights, means, widths), "scale": [1.0, 0.7]}
    whole = Density(2, mixture_log_prob, mixture_gradient, **options)
    target = whole if gradient else without_gradient(2, mixture_log_prob, **options)

    def draw(generator: np.random.Generator, n: int) -> Array:
        k = (generator.random(n) < weights[1]).astype(int)
        return means[k] + widths[k] * generator.standard_normal((n, 2))

    def final(y: Array, size: float) -> Iterator[Outcome]:
        for i in range(2):
            cdf = lambda t, i=i: sum(weights[k] * stats.norm(means[k, i], widths[k, i]).cdf(t) for k in range(2))  # noqa: E731
            yield distribution_test(y[:, i], cdf, detect=size, name=f"coordinate {i}")
        ends = np.array([-9.0, -1.5, 0.0, 1.0, 9.0])
        boxes = sum(
            weights[k] * np.multiply.outer(*(np.diff(stats.norm(means[k, i], widths[k, i]).cdf(ends)) for i in (0, 1)))
            for k in range(2)
        )
        counts, *_ = np.histogram2d(*y.T, bins=[ends, ends])
        yield chi_square_test(counts, boxes / boxes.sum(), detect=size, smallest_expected=30, name="boxes")

    mean = weights @ means
    product = sum(weights[k] * (np.outer(means[k], means[k]) + np.diag(widths[k] ** 2)) for k in range(2))
    return DensityLaw(target, draw, final, np.ones(2), 0.0, mean, product, whole.gradient)


def without_gradient(*arguments: Any, **options: Any) -> Density:
    """Return a density without a gradient; that there is a warning is tested elsewhere."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bouncy.SlowTargetWarning)
        return Density(*arguments, **options)


PRIOR_WIDTH = 2.0


def logistic_log_prob(y, data):
    X, t = data
    total = -0.5 * (y[0] * y[0] + y[1] * y[1]) / 4.0
    for i in range(t.size):
        eta = X[i, 0] * y[0] + X[i, 1] * y[1]
        total -= np.logaddexp(0.0, -eta if t[i] > 0.0 else eta)
    return total


def logistic_gradient(y, out, data):
    X, t = data
    out[0], out[1] = -y[0] / 4.0, -y[1] / 4.0
    for i in range(t.size):
        p = 1.0 / (1.0 + np.exp(-(X[i, 0] * y[0] + X[i, 1] * y[1])))
        out[0] += (t[i] - p) * X[i, 0]
        out[1] += (t[i] - p) * X[i, 1]


def logistic_bound(y, v, horizon, data):
    """Bound each term by itself: that of the prior grows along the ray, the others lie between 0 and x.v."""
    X, t = data
    total = (y[0] * v[0] + y[1] * v[1] + (v[0] * v[0] + v[1] * v[1]) * horizon) / 4.0
    for i in range(t.size):
        along = X[i, 0] * v[0] + X[i, 1] * v[1]
        total += max(0.0, along if t[i] == 0.0 else -along)
    return max(total, 0.0)


@cache
def logistic_data() -> tuple[Array, Array]:
    rng = np.random.default_rng(12)
    X = np.stack([np.ones(12), 1.5 * rng.standard_normal(12)], axis=1)
    return X, (rng.random(12) < special.expit(X @ [0.3, -1.0])).astype(np.float64)


def logistic_likelihood(y: Array) -> Array:
    X, t = logistic_data()
    return -np.logaddexp(0.0, (1.0 - 2.0 * t) * (y @ X.T)).sum(axis=-1)


@cache
def logistic_exact() -> tuple[Array, Array, list[Array], Array]:
    """Return mean, products, ends of boxes and their probabilities, by the midpoint rule."""
    half = np.linspace(-8.0, 8.0, 401)
    middle = 0.5 * (half[1:] + half[:-1])
    y = np.stack(np.meshgrid(middle, middle, indexing="ij"), axis=-1)
    p = np.exp(logistic_likelihood(y) - 0.5 * (y**2).sum(axis=-1) / PRIOR_WIDTH**2)
    p /= p.sum()
    mean, product = np.einsum("ij,ijk->k", p, y), np.einsum("ij,ijk,ijl->kl", p, y, y)
    places = [0, 190, 200, 210, 220, 400], [0, 160, 170, 180, 190, 400]
    boxes = np.add.reduceat(np.add.reduceat(p, places[0][:-1], axis=0), places[1][:-1], axis=1)
    return mean, product, [half[k] for k in places], boxes


def logistic_law(thinned: bool = False) -> DensityLaw:
    """Posterior of a logistic regression with a normal prior; by thinning, too."""
    X, t = logistic_data()
    options: dict[str, Any] = {"bound": logistic_bound} if thinned else {"convex": True}
    target = Density(2, logistic_log_prob, logistic_gradient, data=(X, t), scale=[0.8, 0.5], **options)
    mean, product, ends, boxes = logistic_exact()
    best = -optimize.minimize(lambda y: -logistic_likelihood(y), np.zeros(2), tol=1e-12).fun + 1e-9

    def draw(generator: np.random.Generator, n: int) -> Array:
        def accept(y: Array) -> NDArray[np.bool_]:
            return np.log(generator.random(len(y))) < logistic_likelihood(y) - best

        return rejected(lambda size: PRIOR_WIDTH * generator.standard_normal((size, 2)), accept, n)

    def final(y: Array, size: float) -> Iterator[Outcome]:
        counts, *_ = np.histogram2d(*y.T, bins=ends)
        counts[0, 0] += len(y) - counts.sum()  # beyond the grid, in one of 1e5 draws
        yield chi_square_test(counts, boxes, detect=size, smallest_expected=30, name="boxes")

    return DensityLaw(target, draw, final, np.ones(2), 0.0, mean, product)


POLYTOPE = (
    np.array([[2.0, 0.5, 0.0], [-1.0, 1.0, 0.3], [0.0, -3.0, 1.0], [0.2, 0.4, -0.5]]),
    np.array([2.0, 1.5, 3.0, 0.6]),
)


def polytope_log_prob(y, data):
    normals, offsets = data
    for k in range(offsets.size):
        if normals[k, 0] * y[0] + normals[k, 1] * y[1] + normals[k, 2] * y[2] > offsets[k]:
            return -np.inf
    return -np.sqrt(y[0] * y[0] + y[1] * y[1] + y[2] * y[2])


def polytope_gradient(y, out, data):
    r = np.sqrt(y[0] * y[0] + y[1] * y[1] + y[2] * y[2])
    for i in range(3):
        out[i] = -y[i] / r


def polytope_law() -> DensityLaw:
    """exp(-|y|) in a tetrahedron around zero, integrated along rays from zero in closed form."""
    normals, offsets = POLYTOPE
    scale = np.array([0.5, 1.0, 1.6])
    target = Density(
        3, polytope_log_prob, polytope_gradient, data=POLYTOPE, walls=list(zip(normals, offsets, strict=True)),
        convex=True, scale=scale,
    )  # fmt: skip
    cosine, weight = np.polynomial.legendre.leggauss(160)
    angle = (np.arange(320) + 0.5) * (2.0 * np.pi / 320)
    sine = np.sqrt(1.0 - cosine**2)
    u = np.stack(
        [np.outer(sine, np.cos(angle)), np.outer(sine, np.sin(angle)), np.outer(cosine, np.ones(320))], axis=-1
    )
    along = np.einsum("kc,ijc->ijk", normals, u)
    with np.errstate(divide="ignore"):
        radius = np.where(along > 0.0, offsets / along, INF)
    face, reach = radius.argmin(axis=-1), radius.min(axis=-1)
    assert np.isfinite(reach).all()

    def shell(k: int) -> Array:
        """Return the integral of r^(2 + k) e^-r up to the wall, times the weight of the direction."""
        return weight[:, None] * special.gamma(3 + k) * special.gammainc(3 + k, reach)

    total = shell(0).sum()
    mean = np.einsum("ij,ijk->k", shell(1), u) / total
    product = np.einsum("ij,ijk,ijl->kl", shell(2), u, u) / total
    # Density times area of each wall: an angle of size 1 sees an area of reach^2 / cos, with the wall's own normal.
    lengths = np.sqrt((normals**2).sum(axis=1))
    area = reach**2 * lengths[face] / np.take_along_axis(along, face[..., None], axis=-1)[..., 0]
    surface = weight[:, None] * np.exp(-reach) * area / total
    speed = np.sqrt(((scale * normals) ** 2).sum(axis=1)) / lengths
    hits = 0.5 * mean_speed(3) * sum(speed[k] * surface[face == k].sum() for k in range(4))

    def draw(generator: np.random.Generator, n: int) -> Array:
        def free(size: int) -> Array:
            direction = generator.standard_normal((size, 3))
            direction /= np.sqrt((direction**2).sum(axis=1, keepdims=True))
            return generator.gamma(3.0, size=(size, 1)) * direction

        return rejected(free, lambda y: (y @ normals.T < offsets).all(axis=1), n)

    # The law of the radius: the share of directions that reach it.
    radii = np.array([0.0, 0.6, 0.9, 1.2, 1.5, 2.0, INF])
    inside = [special.gamma(3) * special.gammainc(3, np.minimum(reach, r)) for r in radii]
    shells = np.diff([(weight[:, None] * part).sum() for part in inside]) / total

    def final(y: Array, size: float) -> Iterator[Outcome]:
        assert (y @ normals.T <= offsets * (1 + 1e-9)).all()
        counts, _ = np.histogram(np.sqrt((y**2).sum(axis=1)), bins=radii)
        yield chi_square_test(counts, shells, detect=size, name="shells")

    return DensityLaw(target, draw, final, np.ones(3), float(hits), mean, product)


def oblique_log_prob(y, data):
    widths, normal, offset, jump = data
    total = -0.5 * ((y[0] / widths[0]) ** 2 + (y[1] / widths[1]) ** 2)
    return total + (jump if normal[0] * y[0] + normal[1] * y[1] > offset else 0.0)


def oblique_gradient(y, out, data):
    widths = data[0]
    for i in range(2):
        out[i] = -y[i] / widths[i] ** 2


def oblique_law() -> DensityLaw:
    """A normal whose density is larger beyond an oblique wall: n.y has a jump, and y given n.y is normal."""
    widths, normal, offset, jump = np.array([0.5, 2.0]), np.array([3.0, -1.0]), 0.5, 1.2
    scale = np.array([0.4, 2.5])
    target = Density(
        2, oblique_log_prob, oblique_gradient, data=(widths, normal, offset, jump), walls=[(normal, offset)],
        convex=True, scale=scale,
    )  # fmt: skip
    spread = float(np.sqrt(((widths * normal) ** 2).sum()))
    line = Line(lambda z: -0.5 * (z / spread) ** 2 + jump * (z > offset), [-10 * spread, offset, 10 * spread])
    share = widths**2 * normal / spread**2  # E[y given n.y] = share n.y
    rest = np.diag(widths**2) - spread**2 * np.outer(share, share)
    across = np.array([normal[1] * widths[1] ** 2, -normal[0] * widths[0] ** 2]) / (widths**2).prod()
    deviation = float(np.sqrt(across @ rest @ across))

    def draw(generator: np.random.Generator, n: int) -> Array:
        def accept(y: Array) -> NDArray[np.bool_]:
            return (y @ normal > offset) | (generator.random(len(y)) < np.exp(-jump))

        return rejected(lambda size: widths * generator.standard_normal((size, 2)), accept, n)

    def final(y: Array, size: float) -> Iterator[Outcome]:
        z = y @ normal
        yield distribution_test(z, line.cdf, detect=size, name="across the wall")
        residual = (y - np.outer(z, share)) @ across / deviation
        yield distribution_test(residual, stats.norm.cdf, detect=size, name="along the wall")

    hits = 0.5 * mean_speed(2) * np.sqrt(((scale * normal) ** 2).sum()) * line.density(offset)
    product = rest + line.moment(2) * np.outer(share, share)
    return DensityLaw(target, draw, final, np.ones(2), float(hits), share * line.moment(1), product)


STAIRS = (np.array([-1.0, 0.0, 0.5, 1.2]), np.array([0.5, 0.0, 1.0, -0.3, 0.8]))


def staircase_log_prob(y, data):
    edges, heights = data
    step = 0
    while step < edges.size and y[0] > edges[step]:
        step += 1
    return heights[step] - 0.5 * y[0] * y[0] - 0.5 * ((y[1] - 0.8 * y[0]) / 0.6) ** 2


def staircase_gradient(y, out, data):
    residual = (y[1] - 0.8 * y[0]) / 0.36
    out[0] = -y[0] + 0.8 * residual
    out[1] = -residual


def staircase_law() -> DensityLaw:
    """Steps of a correlated normal at the edges of one coordinate."""
    edges, heights = STAIRS
    scale = np.array([0.7, 1.3])
    target = Density(2, staircase_log_prob, staircase_gradient, data=STAIRS, edges={0: edges}, convex=True, scale=scale)
    line = Line(lambda y: heights[np.searchsorted(edges, y)] - 0.5 * y * y, [-9.0, *edges, 9.0])

    def draw(generator: np.random.Generator, n: int) -> Array:
        first = line.quantile(generator.random(n))
        return np.stack([first, 0.8 * first + 0.6 * generator.standard_normal(n)], axis=1)

    def final(y: Array, size: float) -> Iterator[Outcome]:
        yield distribution_test(y[:, 0], line.cdf, detect=size, name="coordinate with steps")
        residual = (y[:, 1] - 0.8 * y[:, 0]) / 0.6
        yield distribution_test(residual, stats.norm.cdf, detect=size, name="the other, given it")

    hits = sum(edge_hits(2, scale[0], line.density(edge)) for edge in edges)
    first, second = line.moment(1), line.moment(2)
    product = np.array([[second, 0.8 * second], [0.8 * second, 0.64 * second + 0.36]])
    return DensityLaw(
        target, draw, final, np.append(line.masses(edges), 1.0), hits, np.array([first, 0.8 * first]), product
    )


LAWS: dict[str, Callable[[], DensityLaw]] = {
    "quartic": quartic_law,
    "double-well": double_well_law,
    "student-1": lambda: student_law([1.0], {0: [-2.0, -0.5, 0.5, 2.0]}, [1.4]),
    "student-2": lambda: student_law([1.0, 3.0], {0: [-1.0, 1.0], 1: [0.5]}, [1.5, 2.0]),
    "laplace": laplace_law,
    "mixture": mixture_law,
    "mixture-by-differences": lambda: mixture_law(gradient=False),
    "logistic": logistic_law,
    "logistic-thinned": lambda: logistic_law(thinned=True),
    "polytope": polytope_law,
    "oblique": oblique_law,
    "staircase": staircase_law,
}


@cache
def law_of(name: str) -> DensityLaw:
    """Return a law; its functions are compiled once."""
    return LAWS[name]()
