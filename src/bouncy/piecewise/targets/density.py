"""A density of your own: log p given by a Python function, smooth between the edges and walls that you name."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cache, cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bouncy._labels import read_labels
from bouncy._memory import read_only
from bouncy._native import Owner
from bouncy._samplable import close
from bouncy._validation import check_count, check_finite, check_flag, check_real_array
from bouncy.functions.data import read_data
from bouncy.piecewise.by_address import ROLES, DensityView, gradients, log_probs
from bouncy.piecewise.contract import PathTarget
from bouncy.piecewise.potential import Cells
from bouncy.piecewise.smooth_flight import SmoothFlight, new_smooth_flight
from bouncy.piecewise.targets._functions import DensityBinding
from bouncy.targets.contract import raise_failure
from bouncy.tolls.budget import Budget

Array = NDArray[np.float64]
Initial = ArrayLike | Callable[[np.random.Generator], ArrayLike]

# Starts that are tried before a density is said to need one that is given.
_STARTS = 1000
# Starts around a given place are spread over this many natural lengths, and half as many each time none is possible.
_SPREAD = 2.0
_HALVINGS = 60
# What is closer to an edge or a wall than this share of its size is on it.
_BESIDE = 1e-12
# Step of the differences that the first scale comes from, and the range of that scale, relative to 1 + |y|.
_STEP, _SMALLEST, _LARGEST = 1e-4, 1e-6, 1e4


class Density(PathTarget):
    """A density given by functions of your own, smooth between the edges and walls that you name.

    The functions are compiled by numba, without the sampler, and can write neither to `y` nor to `data`. A function
    that numba cannot compile is called as plain Python, at some microseconds a call, with one warning that says why.

    Parameters
    ----------
    d : int
        Number of variables.
    log_prob : callable
        `log_prob(y, data)` returns log p(y) up to a constant, -inf where p(y) = 0. `y` is float64, shape (d,).
    gradient : callable, optional
        `gradient(y, out, data)` writes the gradient of log p into `out`, (d,). Without it, differences of `log_prob`
        are taken: three evaluations for each point of a ray, and 2 d at each bounce, to about ten digits; a
        `SlowTargetWarning` says so.
    edges : mapping, optional
        Labels or numbers of variables to the places at which log p may jump, or have a kink: `{0: [0.0, 1.0]}`. Where
        log p is -inf beyond an edge, it is a wall that is never crossed.
    walls : sequence, optional
        Hyperplanes n.y = c at which log p may jump or have a kink, as pairs (n, c), n of shape (d,).
    convex : bool
        Whether -log p is convex on each cell between edges and walls (log p concave). Event times then take fewer
        evaluations. It is checked along the way.
    bound : callable, optional
        `bound(y, v, horizon, data)` returns a number that -v.gradient does not exceed on y + v t for t from 0 to
        `horizon`. Events are then thinned, which takes no evaluations of log p but at walls. Needs `gradient`.
    data : array, number, or tuple of these, optional
        Parameters of the model, copied, shared between chains. Pass large arrays here: as globals of a function they
        are compiled into its code.
    labels : sequence, optional
        Names of the variables.
    initial : array_like or callable, optional
        Where chains start: around a place, (d,); in one of several, (n, d); or at what a function of a
        `numpy.random.Generator` returns. By default around zero.
    scale : array_like, optional
        Lengths of the variables with which the warm-up begins, such as rough standard deviations; by default from the
        curvature of log p at a start. The warm-up replaces them by standard deviations that it finds.
    compile : bool
        Whether to compile at all.

    Attributes
    ----------
    d : int
        Number of variables.
    convex : bool

    Notes
    -----
    The sampler "metropolis" needs no gradient, edges or walls. The rest is about "bps", the default.

    The particle pays for the positive variation of U = -log p along its ray from an Exp(1) budget and reflects off the
    gradient where it is spent; at a wall it pays for the jump of U or turns back (Pakman 2017, section 2). Event times
    are exact up to rounding as long as U is resolved by the steps of the search, which adapts to it
    (`bouncy.piecewise.rays` has the details).

    A jump in the middle of a cell that was not named, a gradient that is not that of `log_prob`, or an U that is not
    convex where `convex` says so, stop the chain with a `TargetError` that says where. A kink that was not named is
    dealt with at the cost of many evaluations.

    See Also
    --------
    bouncy.testing.check_target : compares the functions, looks for jumps that were not named and for bad scales.

    Examples
    --------
    >>> import numpy as np, bouncy
    >>> def log_prob(y, a):  # a quartic, cut off at zero
    ...     return -0.25 * a * y[0] ** 4 if y[0] > 0.0 else -np.inf
    >>> def gradient(y, out, a):
    ...     out[0] = -a * y[0] ** 3
    >>> target = bouncy.Density(1, log_prob, gradient, edges={0: [0.0]}, convex=True, data=2.0)
    >>> run = bouncy.sample(target, draws=500, seed=0)
    >>> bool(abs(run.mean[0] - 0.5814) < 0.03)
    True
    """

    finds_scale = True

    def __init__(
        self,
        d: int,
        log_prob: Callable[..., Any],
        gradient: Callable[..., Any] | None = None,
        *,
        edges: Mapping[Hashable, ArrayLike] | None = None,
        walls: Sequence[tuple[ArrayLike, float]] = (),
        convex: bool = False,
        bound: Callable[..., Any] | None = None,
        data: Any = None,
        labels: Sequence[Hashable] | None = None,
        initial: Initial | None = None,
        scale: ArrayLike | None = None,
        compile: bool = True,
    ) -> None:
        self.d = check_count("d", d)
        self._labels = read_labels(labels, self.d)
        self.convex = check_flag("convex", convex)
        if bound is not None and gradient is None:
            raise TypeError("bound needs a gradient, with which events are thinned; give gradient(y, out, data) too")
        self._cells = _read_edges({} if edges is None else edges, self.labels)
        self._normals, self._offsets = _read_walls(walls, self.d)
        given = {"log_prob": log_prob, "gradient": gradient, "bound": bound}
        known = () if data is None else (read_data(data),)
        self._binding = DensityBinding(given, known, check_flag("compile", compile))
        self._initial = initial if initial is None or callable(initial) else self._read_places(initial)
        self._first_scale = None if scale is None else _read_scale(scale, self.d)
        self.view()  # compiles, so that errors in a function are raised here
        self._binding.warn_of_differences()

    @classmethod
    def from_pymc(
        cls,
        model: Any,
        *,
        edges: Mapping[Hashable, ArrayLike] | None = None,
        walls: Sequence[tuple[ArrayLike, float]] = (),
        convex: bool = False,
        initial: Initial | Mapping[str, ArrayLike] | None = None,
    ) -> Density:
        """Return the joint density of a PyMC model whose free variables are all continuous.

        Its variables are the value variables of the model, which PyMC transforms to unconstrained space, raveled into
        one vector, with labels such as `mu`, `sigma_log__` and `beta[0]`. `bouncy.pymc.to_model` takes the draws back
        to the variables of the model.

        Parameters
        ----------
        model : pymc.Model
            Its log-density and gradient are compiled by PyTensor for numba. Where PyTensor cannot, they are called as
            plain Python, some ten times slower, and a `SlowTargetWarning` says why. Data are copied: the density stays
            the same when those of the model are replaced. Where log p is NaN, as by overflow far out, p counts as zero,
            as it does for PyMC's samplers.
        edges : mapping, optional
            Where log p may jump or have a kink. The name of a variable, `{"tau": [1.0, 2.0]}`, stands for all its
            entries, with places in its own space; a label, `{"beta[0]": [0.0]}`, for one entry of a value variable. The
            ends of the support of a variable without a transform (`default_transform=None`) are added where they do
            not depend on other variables.
        walls, convex
            As for `bouncy.Density`, in unconstrained space.
        initial : array_like, callable or mapping, optional
            As for `bouncy.Density`, in unconstrained space; or values of variables by their names, in their own space.
            By default around the initial point of the model.

        Notes
        -----
        On a smooth model NUTS is the natural choice. This is for models whose log-density jumps or has kinks, which
        the gradients of NUTS do not see, and to check other samplers.

        Examples
        --------
        .. code-block:: python

            with pm.Model() as model:  # a change point: the likelihood jumps where tau passes an observation
                tau = pm.Uniform("tau", 0.0, 10.0)
                level = pm.Normal("level", 0.0, 5.0, shape=2)
                pm.Normal("y", pm.math.where(times < tau, level[0], level[1]), 1.0, observed=y)
            target = bouncy.Density.from_pymc(model, edges={"tau": times})
            run = bouncy.sample(target, draws=2000, seed=1)
            tau_draws = bouncy.pymc.to_model(run, model).posterior["tau"]
        """
        from bouncy.pymc.density import density_of

        return density_of(model, edges, walls, convex, initial)

    def given(self, data: Any) -> Density:
        """Return the density of the same functions with other data of the same types, without compiling them again.

        With `bouncy.Within`, a particle may continue from its position.

        Examples
        --------
        >>> import bouncy
        >>> normal = bouncy.Density(1, lambda y, a: -a * y[0] ** 2, lambda y, out, a: out.fill(-2 * a * y[0]), data=1.0)
        >>> float(normal.given(3.0).log_prob([2.0]))
        -12.0
        """
        other = object.__new__(type(self))
        vars(other).update(vars(self))
        for name in ("fingerprint", "scale", "support", "_middle"):  # computed from the functions
            vars(other).pop(name, None)
        other._binding = self._binding.given(read_data(data))
        close(other)
        return other

    @property
    def cells(self) -> Cells:
        return self._cells

    @property
    def walls(self) -> tuple[tuple[Array, float], ...]:
        """The hyperplanes n.y = c at which log p may jump, as pairs (n, c)."""
        return tuple((read_only(n), float(c)) for n, c in zip(self._normals, self._offsets, strict=True))

    @property
    def layout(self) -> Mapping[str, NDArray[Any]]:
        return MappingProxyType(
            {**super().layout, "normals": read_only(self._normals), "offsets": read_only(self._offsets)}
        )

    @property
    def roles(self) -> frozenset[str]:
        """Names of the functions that were given."""
        return frozenset(self._binding.roles)

    def run_by_python(self, role: str, **arguments: Any) -> Any:
        """Return the result of a function called as plain Python, with its arguments by name."""
        return self._binding.run_by_python(role, arguments)

    def view(self, scale: Array | None = None) -> DensityView:
        fault = np.zeros(1, np.int64)
        attached = self._binding.attach((), fault)
        explain = self._binding.explainer(attached.errors)
        owner = Owner(fault, keep=attached.keep, explain=explain, target=self)
        cells: dict[str, Any] = {
            name: np.require(array, requirements=["C", "W"]) for name, array in super().layout.items()
        }
        addresses: dict[str, Any] = {name: attached.addresses.get(name, 0) for name in ROLES}
        return DensityView(
            **addresses,
            part=attached.memory.ctypes.data,
            convex=int(self.convex),
            fault=np.asarray(owner),
            where=np.zeros(self.d),
            **cells,
            normals=self._normals.copy(),
            offsets=self._offsets.copy(),
        )

    def particle(
        self, y: Array, v: Array, row: NDArray[np.int64], rate: float, rng: NDArray[np.uint64], toll: Budget
    ) -> SmoothFlight:
        y = self._beside_walls(y)
        side = np.where(self._normals @ y >= self._offsets, 1.0, -1.0)
        return new_smooth_flight(y, v, self.scale, self.cells.locate(y), side, rate, rng, toll)

    def _beside_walls(self, y: Array) -> Array:
        """Return y, or a place beside it where y is on an edge or a wall, on which it has no side."""
        size, generator = np.abs(y) + self.scale, np.random.default_rng(0)
        moved = y
        for _ in range(_STARTS):
            edges = np.abs(np.stack([self.cells.lower, self.cells.upper]) - np.repeat(moved, np.diff(self.cells.first)))
            close = (edges <= _BESIDE * np.repeat(size, np.diff(self.cells.first))).any()
            walls = np.abs(self._normals @ moved - self._offsets) <= _BESIDE * (np.abs(self._normals) @ size)
            if not close and not walls.any() and (moved is y or self.log_prob(moved) > -np.inf):
                return moved
            moved = y + 100.0 * _BESIDE * size * generator.standard_normal(self.d)
        return y

    # Values

    def log_prob(self, x: ArrayLike) -> NDArray[np.float64]:
        values = self.check_values("x", x)
        rows = np.ascontiguousarray(values.reshape(-1, self.d))
        out = np.empty(len(rows))
        view = self.view()
        log_probs(view, rows, out, np.zeros(3, np.int64))
        raise_failure(view)
        return out.reshape(values.shape[:-1])[()]

    def gradient(self, x: ArrayLike) -> NDArray[np.float64]:
        """Return the gradient of log p at values of shape (..., d), as the function that was given computes it."""
        if "gradient" not in self.roles:
            raise AttributeError(f"{self!r} was given no gradient")
        values = self.check_values("x", x)
        rows = np.ascontiguousarray(values.reshape(-1, self.d))
        out = np.full(rows.shape, np.nan)
        view = self.view()
        gradients(view, rows, out, np.zeros(3, np.int64))
        raise_failure(view)
        return out.reshape(values.shape)

    # Where chains start

    def start(self, generator: np.random.Generator) -> Array:
        """Return a place of non-zero density: around `initial`, or around zero."""
        if callable(self._initial):
            return self.check_states("what initial returned", self._initial(generator)).reshape(self.d)
        if self._initial is not None and self._initial.ndim == 2:
            row: Array = self._initial[generator.integers(len(self._initial))]
            return row.copy()
        middle = self._middle
        spread = _SPREAD * self.scale
        for _ in range(_HALVINGS):
            y = middle + spread * generator.standard_normal(self.d)
            if self.log_prob(y) > -np.inf:
                return y
            spread *= 0.5
        return middle.copy()

    @cached_property
    def _middle(self) -> Array:
        """A place of non-zero density."""
        if self._initial is not None and not callable(self._initial):
            middle: Array = np.atleast_2d(self._initial)[0]
            return middle
        generator = np.random.default_rng(0)
        if callable(self._initial):
            return self.start(generator)
        for k in range(_STARTS):
            y = generator.standard_normal(self.d) * (0.0 if k == 0 else 1.0)
            if self.log_prob(y) > -np.inf:
                return y
        raise ValueError(
            f"{_STARTS} random places all have density zero (log p = -inf); pass a possible one as initial="
        )

    @cached_property
    def support(self) -> tuple[Array, Array]:
        """The outermost edges of each variable beyond which log p is -inf at a start, (d,) each; else infinite."""
        least, most = np.full(self.d, -np.inf), np.full(self.d, np.inf)
        cells = self._cells
        for i in np.flatnonzero(np.diff(cells.first) > 1):
            edges = cells.upper[cells.first[i] : cells.first[i + 1] - 1]
            for end, edge, away in ((least, edges[0], -1.0), (most, edges[-1], 1.0)):
                beyond = self._middle.copy()
                beyond[i] = edge + away * _STEP * (1.0 + abs(edge))
                if self.log_prob(beyond) == -np.inf:
                    end[i] = edge
        return read_only(least), read_only(most)

    @cached_property
    def scale(self) -> Array:
        """Lengths, (d,), with which the warm-up begins: given, or 1 / sqrt(-d^2 log p / dy_i^2) at a start."""
        if self._first_scale is not None:
            return read_only(self._first_scale)
        y = self._middle
        steps = _STEP * (1.0 + np.abs(y)) * np.eye(self.d)
        center = self.log_prob(y)
        size = 1.0 + np.abs(y)
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            bend = (2.0 * center - self.log_prob(y + steps) - self.log_prob(y - steps)) / np.diagonal(steps) ** 2
            length = np.clip(1.0 / np.sqrt(bend), _SMALLEST * size, _LARGEST * size)
        return read_only(np.where(np.isfinite(bend) & (bend > 0.0), length, size))

    def _read_places(self, initial: ArrayLike) -> Array:
        places = self.check_states("initial", initial).copy()
        if places.ndim > 2:
            raise ValueError(f"initial must have shape ({self.d},) or (n, {self.d}), got {places.shape}")
        return places

    def __repr__(self) -> str:
        numbers = (("edge", self._cells.lower.size - self.d), ("wall", self._offsets.size))
        counts = [f"{n} {what}{'s' if n > 1 else ''}" for what, n in numbers if n]
        return f"Density({', '.join([f'd={self.d}', *self._binding.roles, *counts])})"


def _read_edges(edges: Mapping[Hashable, ArrayLike], labels: tuple[Hashable, ...]) -> Cells:
    """Return cells that end at the edges of each variable."""
    if not isinstance(edges, Mapping):
        raise TypeError(f"edges must map variables to places, as in {{0: [0.0, 1.0]}}, got {type(edges).__name__}")
    site = {label: i for i, label in enumerate(labels)}
    ends = [np.array([-np.inf, np.inf]) for _ in labels]
    for label, places in edges.items():
        if label not in site:
            known = ", ".join([repr(name) for name in labels[:3]] + (["..."] if len(labels) > 3 else []))
            raise ValueError(f"edges names the variable {label!r}; expected one of {known}")
        inner = np.sort(np.atleast_1d(check_real_array(f"edges[{label!r}]", places)))
        if inner.ndim != 1 or (np.diff(inner) == 0.0).any():
            raise ValueError(f"edges[{label!r}] must be different numbers, got {places!r:.60}")
        ends[site[label]] = np.concatenate([[-np.inf], inner, [np.inf]])
    return Cells.joined([Cells.alike(1, end) for end in ends])


def _read_walls(walls: Sequence[tuple[ArrayLike, float]], d: int) -> tuple[Array, Array]:
    """Return normals, (m, d), and offsets, (m,)."""
    normals, offsets = np.zeros((len(walls), d)), np.zeros(len(walls))
    for k, wall in enumerate(walls):
        if not isinstance(wall, Sequence) or len(wall) != 2:
            raise TypeError(f"walls[{k}] must be a pair (normal, offset), got {wall!r:.60}")
        normal = check_real_array(f"the normal of walls[{k}]", wall[0])
        if normal.shape != (d,) or not normal.any():
            raise ValueError(f"the normal of walls[{k}] must have shape ({d},) and not be zero, got {wall[0]!r:.60}")
        normals[k], offsets[k] = normal, check_finite(f"the offset of walls[{k}]", wall[1])
    return normals, offsets


def _read_scale(scale: ArrayLike, d: int) -> Array:
    lengths = np.broadcast_to(check_real_array("scale", scale), (d,)).copy()
    if not (lengths > 0.0).all():
        raise ValueError(f"scale must be positive, got {scale!r:.60}")
    return lengths


def _well_log_prob(y, data):
    height, wall = data
    total = -height * (y[0] * y[0] - 1.0) ** 2 - 0.5 * (y[1] - 0.5 * y[0]) ** 2
    return total + (0.7 if y[0] + y[1] > wall else 0.0)


def _well_gradient(y, out, data):
    tilt = y[1] - 0.5 * y[0]
    out[0] = -4.0 * data[0] * y[0] * (y[0] * y[0] - 1.0) + 0.5 * tilt
    out[1] = -tilt


@cache  # so that its functions are compiled once
def _well() -> Density:
    """Return a double well with a jump across an oblique wall, and an edge at which nothing happens."""
    return Density(2, _well_log_prob, _well_gradient, walls=[([1.0, 1.0], 0.3)], data=(0.8, 0.3), edges={1: [0.0]})


# One loop serves all densities.
SPECIALISED = {"paths-density": _well}
EXAMPLES = {"density-well": _well}
