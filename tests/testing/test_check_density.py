"""`check_target` on densities: what is wrong is named, and what is right passes.

Functions are called as plain Python, which takes no compilation; one density is compiled as well.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import bouncy
from bouncy.piecewise.targets import examples
from bouncy.targets.contract import TargetError
from bouncy.testing import BadScaleWarning, UnnamedKinkWarning, check_target


def normal(y):
    return -0.5 * float(y @ y)


def normal_gradient(y, out):
    out[:] = -y


def plain(d, log_prob, gradient=normal_gradient, **options):
    return bouncy.Density(d, log_prob, gradient, compile=False, **options)


def stepped(y):
    return normal(y) + (0.3 if y[0] + y[1] > 0.5 else 0.0)


def cut(y):
    return normal(y) if y[0] < 1.0 else -np.inf


def laplace(y):
    return -abs(float(y[0])) - 0.5 * float(y[1]) ** 2


def laplace_gradient(y, out):
    out[:] = -np.sign(y[0]), -y[1]


def wells(y):
    return -((float(y[0]) ** 2 - 1.0) ** 2)


def wells_gradient(y, out):
    out[0] = -4.0 * y[0] * (y[0] ** 2 - 1.0)


def gamma(y):
    """A density that falls to zero continuously where its support ends."""
    return 3.0 * np.log(y[0]) - float(y[0]) if y[0] > 0.0 else -np.inf


def gamma_gradient(y, out):
    out[0] = 3.0 / y[0] - 1.0


def largest_rate(y, v, horizon):
    return max(float(y @ v + v @ v * horizon), 0.0)


RIGHT = {
    "normal": lambda: plain(3, normal, convex=True),
    "no gradient": lambda: plain(2, normal, None),
    "wall": lambda: plain(2, stepped, walls=[([2.0, 2.0], 1.0)]),
    "edge": lambda: plain(2, cut, edges={0: [1.0]}),
    "kink": lambda: plain(2, laplace, laplace_gradient, edges={0: [0.0]}, convex=True),
    "wells": lambda: plain(1, wells, wells_gradient),
    "bound": lambda: plain(2, normal, bound=largest_rate),
    "gamma": lambda: plain(1, gamma, gamma_gradient, initial=[2.0]),
    "compiled": lambda: examples()["density-well"](),
}


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.filterwarnings("ignore:without gradient")
def test_right_densities_pass(name):
    """Catches a check that asks too much: of rounding, of curvature, of jumps that are named."""
    check_target(RIGHT[name](), states=8)


def wrong_gradient(y, out):
    out[:] = -y
    out[1] *= 1.0001


def low_rate(y, v, horizon):
    return max(float(y @ v), 0.0)


WRONG = {
    r"gradient writes out\[1\].* differences of log_prob give": lambda: plain(3, normal, wrong_gradient),
    "log_prob jumps by 0.3 where no edge or wall is named": lambda: plain(2, stepped),
    "log_prob becomes -inf where no edge or wall is named": lambda: plain(2, cut),
    "log_prob is not concave, as convex=True says": lambda: plain(1, wells, wells_gradient, convex=True),
    "bound returns .* where the rate is": lambda: plain(2, normal, bound=low_rate),
}


@pytest.mark.parametrize("message", WRONG)
def test_what_is_wrong_is_named(message):
    """Catches a check that does not see what it is for: a slope off by 1e-4, a small jump, a bound of now alone."""
    with pytest.raises(TargetError, match=message) as error:
        check_target(WRONG[message]())
    assert error.value.state.shape == (WRONG[message]().d,)


def test_kinks_are_told_once():
    """Catches a kink that costs evaluations for ever, and one warning for each ray that meets it."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        check_target(plain(2, laplace, laplace_gradient))
    assert [warning.category for warning in told] == [UnnamedKinkWarning]
    assert "slope" in str(told[0].message)


def test_bad_scales_are_told_by_label():
    """Catches a coordinate in other units than all others that nobody mentions."""
    lengths = np.array([1.0, 1e-4, 1.0, 1e5])

    def log_prob(y):
        return normal(y / lengths)

    def gradient(y, out):
        out[:] = -y / lengths**2

    with pytest.warns(BadScaleWarning, match=r"b \(.*d \("):
        check_target(plain(4, log_prob, gradient, labels=list("abcd"), initial=np.zeros(4)))
