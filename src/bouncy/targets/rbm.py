"""Restricted Boltzmann machines: visible and hidden units together, or the visible ones with the hidden summed out."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from bouncy._compile import helper
from bouncy._labels import Labels, align, check_labels, join_labels
from bouncy._memory import read_only
from bouncy._validation import check_real_array, check_spins
from bouncy.targets.by_address import Linked, linked
from bouncy.targets.contract import Target, target_part
from bouncy.targets.fields import cheaper_storage
from bouncy.targets.mrf import MRF

if TYPE_CHECKING:
    from bouncy.formats.files.json_fields import Fields

# A product of ratios that are each within e^-80 to e^80 is turned into a logarithm before it leaves e^-230 to e^230, so
# that the next one can neither overflow nor become subnormal. Larger weights go through logarithms one by one.
_LARGEST_EXPONENT = 80.0
_LARGE, _SMALL = 1e100, 1e-100
# Probabilities whose product is above this are far from the smallest float64.
_TINY = 1e-280


class RBM(Target):
    """The joint distribution p(v, h) ~ exp(v'Wh + b.v + c.h) of a restricted Boltzmann machine.

    Sampling is in spins -1/+1, the visible units first and then the hidden ones, d = n_visible + n_hidden; `units` says
    what the formula means by v and h. Labels of visible and hidden units are those of the index and the columns of W
    where it is a data frame, else "v0", "v1", ..., "h0", "h1", .... Series b and c are matched to W by their labels.

    Parameters
    ----------
    W : (n_visible, n_hidden) array-like
        Weights. Positive ones favour units that are on together; the couplings M of `MRF`, which are energies, have the
        opposite sign.
    b : (n_visible,) array-like or scalar
        Biases of the visible units.
    c : (n_hidden,) array-like or scalar
        Biases of the hidden units.
    units : "binary" or "spin"
        Whether the formula is in 0/1, the usual convention (PyTorch, scikit-learn: there `components_` is W', and
        `intercept_visible_` and `intercept_hidden_` are b and c), or in -1/+1.
    labels : sequence, optional
        Names of all units, the visible ones first.

    Attributes
    ----------
    n_visible, n_hidden : int

    Examples
    --------
    >>> import bouncy
    >>> rbm = bouncy.RBM([[2.0], [2.0]], b=-1.0)
    >>> rbm, rbm.labels
    (RBM(2 visible, 1 hidden, binary units), ('v0', 'v1', 'h0'))
    >>> rbm.log_prob([[1, 1, 1], [1, -1, -1]])  # v = (1, 1), h = 1 and v = (1, 0), h = 0
    array([ 2., -1.])
    >>> bouncy.exact(rbm.marginal()).mean.round(6)
    array([0.351946, 0.351946])
    """

    json_kind = "rbm"

    def __init__(
        self,
        W: ArrayLike,
        b: ArrayLike = 0.0,
        c: ArrayLike = 0.0,
        *,
        units: str = "binary",
        labels: Sequence[Hashable] | None = None,
    ) -> None:
        (W, b, c), named = align(("W", W, "visible", "hidden"), ("b", b, "visible"), ("c", c, "hidden"))
        self._W = _read_weights(W)
        self.n_visible, self.n_hidden = self._W.shape
        self._b = _read_biases("b", b, self.n_visible, "visible")
        self._c = _read_biases("c", c, self.n_hidden, "hidden")
        if units not in ("binary", "spin"):
            raise ValueError(f"units must be 'binary' (0/1) or 'spin' (-1/+1), got {units!r:.60}")
        self.units = units
        self.d: int = self.n_visible + self.n_hidden
        names = (named["visible"], _unit_names("v", self.n_visible)), (named["hidden"], _unit_names("h", self.n_hidden))
        self._labels = check_labels(join_labels(*names) if labels is None else labels, self.d)
        self._form = self._spin_form()
        self._mrf = self._form.to_mrf(self.labels)

    @property
    def W(self) -> NDArray[np.float64]:
        """Weights, (n_visible, n_hidden), read-only."""
        return read_only(self._W)

    @property
    def b(self) -> NDArray[np.float64]:
        """Biases of the visible units, (n_visible,), read-only."""
        return read_only(self._b)

    @property
    def c(self) -> NDArray[np.float64]:
        """Biases of the hidden units, (n_hidden,), read-only."""
        return read_only(self._c)

    def marginal(self) -> VisibleRBM:
        """Return the distribution of the visible units, the hidden ones summed out.

        log p(v) = b.v + sum_j log(1 + exp(c_j + (v'W)_j)) in 0/1, and b.v + sum_j log(2 cosh(c_j + (v'W)_j)) in -1/+1:
        the sum of exp(log_prob) over the hidden states. A flip costs O(n_hidden).

        Examples
        --------
        >>> import bouncy
        >>> bouncy.RBM([[2.0], [2.0]], b=-1.0).marginal()
        VisibleRBM(2 visible, 1 hidden)
        """
        return VisibleRBM(self._form, self.labels[: self.n_visible])

    def hidden_means(self, v: ArrayLike) -> NDArray[np.float64]:
        """Return E[h | v], (..., n_hidden), for visible spins (..., n_visible), for instance draws of `marginal`.

        Both are spins: the probability that a unit is on is (1 + E[h | v]) / 2.

        Examples
        --------
        >>> import bouncy
        >>> bouncy.RBM([[2.0], [2.0]], c=-2.0).hidden_means([[1, -1], [1, 1]]).round(6)
        array([[0.      ],
               [0.761594]])
        """
        spins = check_spins(v, self.n_visible, "v")
        means: NDArray[np.float64] = np.tanh(self._form.c + spins @ self._form.W)
        return means

    def to_mrf(self) -> MRF:
        """Return the joint distribution as a Markov random field, with the same labels, constant and order of units."""
        return self._mrf

    def view(self) -> Any:
        """Return the arrays for compiled loops: those of the equivalent Markov random field."""
        return self._mrf.view()

    def lanes(self, width: int, ladder: bool = False) -> Any:
        return self._mrf.lanes(width, ladder)

    def edges(self) -> scipy.sparse.csr_array:
        """Return the pattern of non-zero weights, a symmetric (d, d) `csr_array` of bool."""
        return self._mrf.edges()

    def to_json(self) -> dict[str, Any]:
        return {"units": self.units, "b": self._b.tolist(), "c": self._c.tolist(), "W": self._W.tolist()}

    @classmethod
    def from_json(cls, fields: Fields) -> RBM:
        from bouncy.formats.files.json_fields import listed, number

        units = fields.choice("units", ("binary", "spin"))
        b, c = fields.numbers("b"), fields.numbers("c")
        W = np.empty((len(b), len(c)))
        for i, row in enumerate(listed(fields.source, fields.take("W"), "W", len(b))):
            for j, value in enumerate(listed(fields.source, row, f"W[{i}]", len(c))):
                W[i, j] = number(fields.source, value, f"W[{i}][{j}]")
        return cls(W, b, c, units=units, labels=fields.labels(len(b) + len(c)))

    def __repr__(self) -> str:
        return f"RBM({self.n_visible} visible, {self.n_hidden} hidden, {self.units} units)"

    def _spin_form(self) -> _SpinForm:
        """Return the parameters of the same model over spins: v = (1 + s)/2 put in if the units are 0/1."""
        W, b, c = self._W, self._b, self._c
        _check_overflow(W, b, c)
        if self.units == "spin":
            return _SpinForm(W, b, c, 0.0)
        by_visible, by_hidden = W.sum(axis=1) / 4, W.sum(axis=0) / 4
        offset = float(np.sum(b) / 2 + np.sum(c) / 2 + np.sum(by_hidden))
        return _SpinForm(W / 4, b / 2 + by_visible, c / 2 + by_hidden, offset)

    def _given(self, free: NDArray[np.intp], spins: NDArray[np.int8], labels: Labels) -> Target:
        return self._mrf._given(free, spins, labels)

    def _tempered(self, beta: float) -> RBM:
        return RBM(beta * self._W, beta * self._b, beta * self._c, units=self.units, labels=self._labels)


class _SpinForm(NamedTuple):
    """log p(v, h) = offset + v'Wh + b.v + c.h over spins."""

    W: NDArray[np.float64]
    b: NDArray[np.float64]
    c: NDArray[np.float64]
    offset: float

    def to_mrf(self, labels: Any) -> MRF:
        minus_W = scipy.sparse.csr_array(-self.W)
        M: Any = scipy.sparse.block_array([[None, minus_W], [minus_W.T, None]], format="csr")
        try:
            return MRF(cheaper_storage(M), 0.0 - np.r_[self.b, self.c], labels=labels, offset=self.offset)
        except ValueError as error:
            raise ValueError(
                f"the Markov random field of this RBM over spins, M = [[0, -W], [-W', 0]]: {error}"
            ) from None


class VisibleRBM(Target):
    """The visible units of a restricted Boltzmann machine; made by `RBM.marginal`."""

    def __init__(self, form: _SpinForm, labels: Labels) -> None:
        self._form = form
        self.d: int = form.W.shape[0]
        self._labels = labels
        exponent = 4 * form.W
        exponent[np.abs(exponent) > _LARGEST_EXPONENT] = np.nan
        self._ratio = np.exp(exponent)
        self._log_ratio = 2 * form.W.sum(axis=1)

    def view(self) -> Linked:
        """Return the arrays for compiled loops: the model's own, shared, and caches that are NaN until `init`."""
        W, b, c, offset = self._form
        a, on, off = (np.full(c.size, np.nan) for _ in range(3))
        return linked(Activations(W, b, c, self._ratio, self._log_ratio, a, on, off, offset), self.d)

    def __repr__(self) -> str:
        n_visible, n_hidden = self._form.W.shape
        return f"VisibleRBM({n_visible} visible, {n_hidden} hidden)"

    def _given(self, free: NDArray[np.intp], spins: NDArray[np.int8], labels: Labels) -> VisibleRBM:
        W, b, c, offset = self._form
        form = _SpinForm(W[free], b[free], c + spins @ W, offset + float(spins @ b))
        return VisibleRBM(form, labels)


# Validation


def _read_weights(W: ArrayLike) -> NDArray[np.float64]:
    weights = check_real_array("W", W)
    if weights.ndim != 2 or 0 in weights.shape:
        raise ValueError(
            f"W must have shape (n_visible, n_hidden) with at least one unit of each kind, got shape {weights.shape}"
        )
    return weights


def _read_biases(name: str, biases: ArrayLike, n: int, kind: str) -> NDArray[np.float64]:
    values = check_real_array(name, biases)
    if values.ndim == 0:
        return np.full(n, float(values))
    if values.shape != (n,):
        raise ValueError(f"{name} must be a scalar or have shape ({n},), one per {kind} unit, got shape {values.shape}")
    return values


def _check_overflow(W: NDArray[np.float64], b: NDArray[np.float64], c: NDArray[np.float64]) -> None:
    """Raise unless any sum of the parameters, and four times it, fits in a float64."""
    with np.errstate(over="ignore"):
        total = 4 * (np.sum(np.abs(W)) + np.sum(np.abs(b)) + np.sum(np.abs(c)))
    if not np.isfinite(total):
        largest = max(np.max(np.abs(array)) for array in (W, b, c))
        raise ValueError(
            f"the sum of the absolute weights and biases must fit in a float64 but overflows (largest {largest:g}); "
            "rescale them"
        )


def _unit_names(letter: str, n: int) -> tuple[str, ...]:
    return tuple(f"{letter}{k}" for k in range(n))


# Compiled bodies


@target_part("a", "on", "off")
class Activations(NamedTuple):
    """log p(s) = offset + b.s + sum_j log(2 cosh a_j) with the activations a = c + W's kept up to date."""

    W: NDArray[np.float64]  # (d, hidden)
    b: NDArray[np.float64]  # (d,)
    c: NDArray[np.float64]  # (hidden,)
    ratio: NDArray[np.float64]  # (d, hidden) exp(4 W), NaN where that is too large or too small for a product
    log_ratio: NDArray[np.float64]  # (d,) 2 sum_j W_ij
    a: NDArray[np.float64]  # (hidden,)
    on: NDArray[np.float64]  # (hidden,) probability that the hidden unit is +1, 1/(1 + exp(-2a))
    off: NDArray[np.float64]  # (hidden,) that it is -1: not 1 - on, which would lose its digits
    offset: float

    def flip_cost(self, s, i):
        # As cosh(a + 2W)/cosh(a) = exp(-2W) (off + on exp(4W)), and cosh(a - 2W)/cosh(a) = exp(-2W) (on + off exp(4W)),
        # a hidden unit takes one multiplication and addition of positive numbers: no exponential, no cancellation.
        if s[i] < 0:
            log_product = _log_product(self, i, self.off, self.on, 2.0)
        else:
            log_product = _log_product(self, i, self.on, self.off, -2.0)
        return 2.0 * s[i] * self.b[i] + self.log_ratio[i] - log_product

    def log_prob(self, s):
        total = self.offset
        for i in range(s.size):
            total += s[i] * self.b[i]
        for j in range(self.a.size):
            total += math.log(2.0) + _log_cosh(self.a[j])
        return total

    def init(self, s):
        for j in range(self.a.size):
            self.a[j] = self.c[j]
        for i in range(s.size):
            spin = float(s[i])
            row = self.W[i]
            for j in range(self.a.size):
                self.a[j] += spin * row[j]
        for j in range(self.a.size):
            _set_hidden(self, j)

    def on_flip(self, s, i):
        change = 2.0 * s[i]
        row = self.W[i]
        a = self.a
        for j in range(a.size):
            a[j] += change * row[j]
        if s[i] > 0:
            lost = _shift_odds(self.ratio[i], self.off, self.on)
        else:
            lost = _shift_odds(self.ratio[i], self.on, self.off)
        if lost > 0:
            for j in range(a.size):
                if not self.on[j] * self.off[j] > _TINY:
                    _set_hidden(self, j)


@helper
def _log_product(view, i, constant, slope, change):
    """Return sum_j log(constant_j + slope_j exp(4 W_ij)), one logarithm for as many units as a product can hold."""
    ratio = view.ratio[i]
    total = 0.0
    product = 1.0
    for j in range(ratio.size):
        factor = constant[j] + slope[j] * ratio[j]
        if factor == factor:
            product *= factor
            if product > _LARGE or product < _SMALL:
                total += math.log(product)
                product = 1.0
        else:
            weight = view.W[i, j]
            total += 2.0 * weight + _log_cosh(view.a[j] + change * weight) - _log_cosh(view.a[j])
    return total + math.log(product)


@helper
def _shift_odds(ratio, other, state):
    """Multiply the odds state : other of each hidden unit, in place, and return how many units lost their digits.

    Rounding adds up no faster than that of the activations, and this is eight times as fast as an exponential each.
    """
    lost = 0
    for j in range(ratio.size):
        weighted = state[j] * ratio[j]
        scale = 1.0 / (other[j] + weighted)
        other[j] *= scale
        state[j] = weighted * scale
        lost += not other[j] * state[j] > _TINY  # also true of NaN
    return lost


@helper
def _set_hidden(view, j):
    """Set the probabilities of one hidden unit from its activation."""
    odds = math.exp(-2.0 * abs(view.a[j]))
    likely, unlikely = 1.0 / (1.0 + odds), odds / (1.0 + odds)
    view.on[j] = likely if view.a[j] > 0 else unlikely
    view.off[j] = unlikely if view.a[j] > 0 else likely


@helper
def _log_cosh(x):
    """Return log(cosh(x)) without overflow."""
    return abs(x) + math.log1p(math.exp(-2.0 * abs(x))) - math.log(2.0)


def _example(units: str) -> RBM:
    return RBM([[0.8, -0.5], [-0.3, 0.6], [0.4, 0.2]], b=[0.1, -0.2, 0.15], c=[0.2, -0.1], units=units)


EXAMPLES = {
    "rbm-joint": lambda: _example("binary"),
    "rbm-visible": lambda: _example("binary").marginal(),
    "rbm-visible-spin": lambda: _example("spin").marginal(),
}
