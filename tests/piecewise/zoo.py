"""Small potentials of every kind that the engine is made for, and random ones that mix all of them."""

from __future__ import annotations

from functools import partial

import numpy as np
import scipy.sparse

from bouncy.piecewise.potential import Cells, Potential

INF = np.inf


def correlated(d: int, seed: int) -> np.ndarray:
    """Return a positive definite matrix, (d, d)."""
    L = np.random.default_rng(seed).standard_normal((d, d))
    return L @ L.T / d + 0.3 * np.eye(d)


def gaussian() -> Potential:
    return Potential(correlated(3, 1), np.array([0.5, -1.0, 0.2]), Cells.alike(3, [-INF, INF]))


def boxed() -> Potential:
    """Walls on both sides, on one side and on none."""
    cells = Cells.alike(3, [[-0.5, 1.0], [0.3, INF], [-INF, INF]])
    return Potential(correlated(3, 2), np.array([1.0, -0.5, 0.0]), cells)


def lasso() -> Potential:
    cells = Cells.alike(3, [-INF, 0.0, INF], tilt=[-1.5, 1.5])
    return Potential(correlated(3, 3), np.array([1.0, 0.1, -2.0]), cells)


def spins(exponential: bool) -> Potential:
    M = np.array([[0.0, 0.5, -0.3], [0.5, 0.0, 0.7], [-0.3, 0.7, 0.0]])
    phi = {"tilt": [-1.0, 1.0]} if exponential else {"curvature": 1.0}
    return Potential(
        M, np.array([-0.3, 0.2, 0.1]), Cells.alike(3, [-INF, 0.0, INF], slope=0.0, shift=[-1.0, 1.0], **phi)
    )


def spike_slab(d: int = 3, c: float = 0.4) -> Potential:
    """Zero stretched to (-c, c); the slab is a normal, the jumps come from the prior of zero."""
    bend = 0.5
    cells = Cells.alike(
        d,
        [-INF, -c, c, INF],
        slope=[1.0, 0.0, 1.0],
        shift=[c, 0.0, -c],
        constant=[0.3 + bend * c * c / 2, -0.2, 0.3 + bend * c * c / 2],
        tilt=[bend * c, 0.0, -bend * c],
        curvature=[bend, 0.0, bend],
    )
    return Potential(correlated(d, 4), np.linspace(-1.0, 2.0, d), cells)


def points(d: int = 5) -> Potential:
    """A point between unequal sides, two at ends, one of them beside a bounded cell, intervals that are crossed."""
    uneven = Cells.alike(1, [-INF, -0.4, 0.3, INF], slope=[1.0, 0.0, 1.0], shift=[0.4, 0.0, -0.3],
                         constant=[0.0, 0.5, 1.2])  # fmt: skip
    at_end = Cells.alike(1, [-0.5, 0.0, INF], slope=[0.0, 1.0], constant=[-0.3, 0.4])
    bounded = Cells.alike(1, [-0.8, 0.0, 0.3, 0.9], slope=[-1.0, 0.0, 1.0], shift=[0.2, 0.2, 0.0],
                          constant=[0.0, 0.1, np.inf])  # fmt: skip
    tilted = Cells.alike(1, [-INF, -0.4, 0.4, INF], slope=[1.0, 0.0, 1.0], shift=[0.4, 0.0, -0.4], tilt=[0.0, 0.5, 0.0])
    leaping = Cells.alike(1, [-INF, -0.4, 0.4, INF], slope=[1.0, 0.0, 1.0], shift=[0.4, 0.1, -0.4])
    groups = [uneven, at_end, bounded, tilted, leaping][:d]
    return Potential(correlated(d, 6), np.linspace(-1.0, 1.0, d), Cells.joined(groups))


def flat() -> Potential:
    """A flat box."""
    return Potential(np.zeros((2, 2)), np.zeros(2), Cells.alike(2, [[-1.0, 1.0], [0.0, 3.0]]))


def hills() -> Potential:
    """A box with a maximum of the potential in its middle."""
    return Potential(np.array([[-1.0, 0.5], [0.5, -0.7]]), np.array([0.2, 0.0]), Cells.alike(2, [-1.5, 2.0]))


def one_coordinate() -> Potential:
    """A hard wall, a flat cell, a jump, a kink, a cell that is never entered beyond the last jump."""
    cells = Cells.alike(1, [-1.0, 0.0, 1.0, 2.0, 3.0, INF], slope=0.0, constant=[0.0, 0.0, 0.7, -0.8, INF],
                        tilt=[0.5, 0.0, 0.0, 0.75, 0.0])  # fmt: skip
    return Potential(np.zeros((1, 1)), np.zeros(1), cells)


def random_potential(d: int, seed: int) -> Potential:
    """Up to five cells per coordinate, with jumps of x and of phi, kinks, flat cells and cells that bend down."""
    rng = np.random.default_rng([7, seed])
    groups = []
    for i in range(d):
        n = int(rng.integers(1, 6))
        inner = np.cumsum(rng.uniform(0.3, 1.0, n + 1)) - 1.5
        bounded = rng.random(2) < 0.4
        edges = [inner[0] if bounded[0] else -INF, *inner[1:-1], inner[-1] if bounded[1] else INF]
        bend = rng.uniform(-1.0, 1.5, n)
        bend[[0, -1]] = rng.uniform(0.5, 2.0, 2)
        constant = rng.normal(0.0, 0.7, n)
        if n == 5:
            constant[4] = INF if i % 2 else constant[4]
        slope = rng.choice([0.0, 1.0, -0.7], n)
        groups.append(
            Cells.alike(1, edges, slope=slope, shift=rng.normal(0.0, 0.5, n), constant=constant,
                        tilt=rng.choice([0.0, 1.0, -1.0], n), curvature=bend)
        )  # fmt: skip
    return Potential(correlated(d, seed) - 0.2 * np.eye(d), rng.standard_normal(d), Cells.joined(groups))


ZOO = {
    "gaussian": gaussian,
    "boxed": boxed,
    "lasso": lasso,
    "spins": partial(spins, exponential=False),
    "spins-exponential": partial(spins, exponential=True),
    "spike-slab": spike_slab,
    "points": points,
    "point": partial(points, 1),
    "flat": flat,
    "hills": hills,
    "one-coordinate": one_coordinate,
    **{
        f"random-{d}-{seed}": partial(random_potential, d, seed) for d, seed in [(1, 1), (2, 2), (3, 3), (4, 4), (6, 5)]
    },
}


def as_sparse(potential: Potential) -> Potential:
    return Potential(scipy.sparse.csr_array(potential.coupling), potential.linear, potential.cells)
