"""The compiled side of variable selection: costs of flips by the Cholesky factor of the current model."""

from __future__ import annotations

from math import log, log1p, sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bouncy._compile import helper
from bouncy.targets._cholesky import append, delete, inverse_column, norm_of_solution, solve_lanes, solve_transposed
from bouncy.targets.contract import costs_to_means, flip_cost, target_part

# Models whose variance inflation factors add up to more than this count as rank-deficient: rounding of the correlations
# changes log p by up to some 1e-15 times the sum.
_INFLATION_LIMIT = 1e10
# Rounding error of the unexplained share of y'y.
_UNEXPLAINED = 1e-15
# Factors are computed anew after this many flips, or as many as there are variables in the model: like the flips, that
# takes O(k^2) per flip.
_FLIPS_PER_FACTOR = 64
# Variables whose costs are computed side by side.
_LANES = 32
# Cost of removing a variable from an impossible model: finite, but as good as minus infinity.
_RELIEF = -1e100


def _place_bounds(view):
    included = view.place >= 0
    return np.where(included, 0, -1), np.where(included, view.tally[SIZE] - 1, -1)


def _tally_bounds(view):
    size, possible, _ = view.tally
    return [size, possible, 0], [size, possible, max(_FLIPS_PER_FACTOR, view.order.size)]


@target_part(
    "U", "u", "order", "place", "tally", "sums",
    bounds={"order": lambda view: (0, view.place.size - 1), "place": _place_bounds, "tally": _tally_bounds},
)  # fmt: skip
class FactoredModel(NamedTuple):
    """A regression and the Cholesky factor of the current model.

    With C the correlations of the variables in the model and q = b'C^-1 b the share of y'y that they explain,
    log p(y, gamma) = constant + by_size[k] + sum of weights - determinant log|C| + fit, where the fit is
    -exponent log(1 - shrinkage q) if the noise is unknown and precision shrinkage q if it is known.
    """

    correlations: NDArray[np.float64]  # (p, p) with ones on the diagonal, or (0, 0): use the columns
    columns: NDArray[np.float64]  # (p, n) or (0, 0): use the correlations
    b: NDArray[np.float64]  # (p,) correlations with y
    weight: NDArray[np.float64]  # (p,)
    by_size: NDArray[np.float64]  # (p + 1,)
    constant: float
    determinant: float
    shrinkage: float
    floor: float  # the least that 1 - shrinkage q can be
    exponent: float  # 0 if the noise is known
    precision: float
    U: NDArray[np.float64]  # (K, K) U'U = C in its first k rows and columns
    u: NDArray[np.float64]  # (K,) solves U'u = b of the model
    order: NDArray[np.int64]  # (K,) the variables in the order of U
    place: NDArray[np.int64]  # (p,) where a variable is in that order; -1 if it is not
    tally: NDArray[np.int64]  # (3,) see the indices below
    sums: NDArray[np.float64]  # (2,) the same
    x: NDArray[np.float64]  # (K,) scratch, like all that follow
    w: NDArray[np.float64]  # (K,)
    lanes: NDArray[np.float64]  # (K + 2, lanes)
    waiting: NDArray[np.int64]  # (lanes,)

    def flip_cost(self, s, i):
        if self.tally[POSSIBLE] == 0:
            return _RELIEF if s[i] > 0 else np.inf
        if self.place[i] < 0:
            return _cost_of_adding(self, i)
        return _cost_of_removing(self, i)

    def log_prob(self, s):
        if self.tally[POSSIBLE] == 0:
            return -np.inf
        k = self.tally[SIZE]
        total = self.constant + self.by_size[k] + _fit(self)
        for m in range(k):
            total += self.weight[self.order[m]] - 2.0 * self.determinant * log(self.U[m, m])
        return total

    def init(self, s):
        _clear(self)
        _include(self, s, 0, s.size)

    def on_flip(self, s, i):
        begin, end = i, i + 1
        self.tally[AGE] += 1
        if self.tally[POSSIBLE] == 0 or self.tally[AGE] >= max(_FLIPS_PER_FACTOR, self.tally[SIZE]):
            _clear(self)
            begin, end = 0, s.size
        elif s[i] < 0:
            _remove(self, i)
        _include(self, s, begin, end)

    def conditional_means(self, s, out):
        # Variables that are left out are dealt with side by side, the few others one by one.
        k = self.tally[SIZE]
        may_grow = self.tally[POSSIBLE] == 1 and k < self.u.size
        count = 0
        for i in range(s.size):
            out[i] = np.nan
            if may_grow and self.place[i] < 0:
                _correlate_with(self, i, k)
                for m in range(k):
                    self.lanes[m, count] = self.x[m]
                self.waiting[count] = i
                count += 1
            if count == _LANES or (i == s.size - 1 and count > 0):
                _write_costs_of_adding(self, k, count, out)
                count = 0
        for i in range(s.size):
            if np.isnan(out[i]):
                out[i] = flip_cost(self, s, i)
        costs_to_means(out, s)


def new_factored_model(largest: int, *, floor: float, **regression: Any) -> FactoredModel:
    """Return a model of up to `largest` variables whose factor is still to be computed, by `init`."""
    p, K = regression["b"].size, largest
    return FactoredModel(
        **regression,
        floor=max(floor, _UNEXPLAINED),
        U=np.zeros((K, K)),
        u=np.zeros(K),
        order=np.zeros(K, np.int64),
        place=np.full(p, -1, np.int64),
        tally=np.zeros(3, np.int64),
        sums=np.zeros(2),
        x=np.zeros(K),
        w=np.zeros(K),
        lanes=np.zeros((K + 2, _LANES)),
        waiting=np.zeros(_LANES, np.int64),
    )


# Indices into `tally`: variables in the model, whether the model is possible (if not, its factor has no meaning), flips
# since the factor was computed anew.
SIZE, POSSIBLE, AGE = range(3)
# Indices into `sums`: of the variance inflation factors, of u^2.
INFLATION, EXPLAINED = range(2)


# Costs


@helper
def _cost_of_adding(view, j):
    k = view.tally[SIZE]
    if k == view.u.size:
        return np.inf
    pivot, residual = _project(view, j, k)
    if not _is_clear(view, pivot) and _inflation_with(view, k, pivot) > _INFLATION_LIMIT:
        return np.inf
    return _price_of_adding(view, j, k, pivot, residual)


@helper
def _write_costs_of_adding(view, k, count, costs):
    """Write the costs of the waiting variables, whose correlations with the model are the columns of `lanes`.

    Costs that need a closer look, because the model may become rank-deficient, are not written.
    """
    lanes = view.lanes
    solve_lanes(view.U, k, lanes)
    pivots, residuals = lanes[k], lanes[k + 1]
    for lane in range(count):
        pivots[lane] = 1.0
        residuals[lane] = view.b[view.waiting[lane]]
    for m in range(k):
        x, u = lanes[m], view.u[m]
        for lane in range(pivots.size):
            pivots[lane] -= x[lane] * x[lane]
            residuals[lane] -= x[lane] * u
    for lane in range(count):
        j = view.waiting[lane]
        if _is_clear(view, pivots[lane]):
            costs[j] = _price_of_adding(view, j, k, pivots[lane], residuals[lane])


@helper
def _price_of_adding(view, j, k, pivot, residual):
    """Return the cost of adding variable j, given the rests of x_j'x_j and x_j'y that the k in the model leave."""
    gain = view.weight[j] + view.by_size[k + 1] - view.by_size[k] - view.determinant * log(pivot)
    return -(gain + _fit_gained(view, residual * residual / pivot))


@helper
def _cost_of_removing(view, j):
    k, at, x = view.tally[SIZE], view.place[j], view.x
    inflation = inverse_column(view.U, k, at, x)
    coefficient = 0.0  # entry j of C^-1 b
    for m in range(at, k):
        coefficient += x[m] * view.u[m]
    gain = view.by_size[k - 1] - view.by_size[k] - view.weight[j] - view.determinant * log(inflation)
    return -(gain + _fit_gained(view, -coefficient * coefficient / inflation))


@helper
def _fit(view):
    explained = view.shrinkage * view.sums[EXPLAINED]
    if view.exponent == 0.0:
        return view.precision * explained
    return -view.exponent * log(max(1.0 - explained, view.floor))


@helper
def _fit_gained(view, more):
    """Return the increase of the fit when u'u increases by `more`."""
    more *= view.shrinkage
    if view.exponent == 0.0:
        return view.precision * more
    rest = max(1.0 - view.shrinkage * view.sums[EXPLAINED], view.floor)
    return -view.exponent * log1p(max(-more, view.floor - rest) / rest)


# Adding and removing variables


@helper
def _correlate_with(view, j, k):
    """Write the correlations of variable j with the k in the model into x."""
    order, x = view.order, view.x
    if view.correlations.size > 0:
        row = view.correlations[j]
        for m in range(k):
            x[m] = row[order[m]]
    else:
        for m in range(k):
            x[m] = _dot(view.columns[j], view.columns[order[m]])


@helper
def _dot(a, b):
    """Return a.b, in four sums that do not wait for each other."""
    s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
    whole = a.size - a.size % 4
    for i in range(0, whole, 4):
        s0 += a[i] * b[i]
        s1 += a[i + 1] * b[i + 1]
        s2 += a[i + 2] * b[i + 2]
        s3 += a[i + 3] * b[i + 3]
    for i in range(whole, a.size):
        s0 += a[i] * b[i]
    return (s0 + s1) + (s2 + s3)


@helper
def _project(view, j, k):
    """Solve U'x = c, c the correlations of variable j with the model; return the rests of x_j'x_j and x_j'y."""
    x = view.x
    _correlate_with(view, j, k)
    solve_transposed(view.U, 0, k, x)
    pivot, residual = 1.0, view.b[j]
    for m in range(k):
        pivot -= x[m] * x[m]
        residual -= x[m] * view.u[m]
    return pivot, residual


@helper
def _is_clear(view, pivot):
    """Say whether a new variable cannot make the model rank-deficient, as its inflation is at most (1 + sum)/pivot."""
    return 1.0 + view.sums[INFLATION] <= _INFLATION_LIMIT * pivot


@helper
def _inflation_with(view, k, pivot):
    """Return the sum of the variance inflation factors with the variable that was projected last."""
    if pivot <= 1.0 / _INFLATION_LIMIT:
        return np.inf
    return view.sums[INFLATION] + (1.0 + norm_of_solution(view.U, k, view.x, view.w)) / pivot


@helper
def _insert(view, j):
    """Add variable j to the model; return 1, or 0 if that makes it impossible."""
    k = view.tally[SIZE]
    if k == view.u.size:
        return 0
    pivot, residual = _project(view, j, k)
    inflation = _inflation_with(view, k, pivot)
    if inflation > _INFLATION_LIMIT:
        return 0
    append(view.U, k, view.x, pivot)
    view.u[k] = residual / sqrt(pivot)
    view.order[k] = j
    view.place[j] = k
    view.tally[SIZE] = k + 1
    view.sums[INFLATION] = inflation
    _add_up_explained(view)
    return 1


@helper
def _remove(view, j):
    """Remove variable j from the model."""
    k, at = view.tally[SIZE], view.place[j]
    own = inverse_column(view.U, k, at, view.x)
    view.sums[INFLATION] -= norm_of_solution(view.U, k, view.x, view.w) / own
    delete(view.U, view.u, k, at)
    for m in range(at, k - 1):
        view.order[m] = view.order[m + 1]
        view.place[view.order[m]] = m
    view.place[j] = -1
    view.tally[SIZE] = k - 1
    _add_up_explained(view)


@helper
def _add_up_explained(view):
    total = 0.0
    for m in range(view.tally[SIZE]):
        total += view.u[m] * view.u[m]
    view.sums[EXPLAINED] = total


@helper
def _clear(view):
    """Remove all variables from the model."""
    view.tally[SIZE] = 0
    view.tally[POSSIBLE] = 1
    view.tally[AGE] = 0
    view.sums[INFLATION] = 0.0
    view.sums[EXPLAINED] = 0.0
    for j in range(view.place.size):
        view.place[j] = -1


@helper
def _include(view, s, begin, end):
    """Add those variables from `begin` to `end` that s includes, as long as the model is possible."""
    for j in range(begin, end):
        if s[j] > 0 and view.tally[POSSIBLE] == 1:
            view.tally[POSSIBLE] = _insert(view, j)
