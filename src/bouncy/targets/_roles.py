"""The functions of a target of spins that a user may give: how they are called, compiled and by plain Python."""

from __future__ import annotations

import numpy as np

from bouncy._compile import helper
from bouncy._native import BAD_AT, FINE, array_at, as_number, as_status, dereference, read_only
from bouncy.functions.user_function import Role

# A conditional mean may leave [-1, 1] by rounding.
_TOLERANCE = 1e-9


@helper
def _not_negative(i):
    """Return a site unchanged but known to be >= 0, which skips the wraparound check of indices."""
    return np.int64(np.uint32(i))


def _adapt_flip_cost(function, last):
    def flip_cost(pointer, s, d, i):
        return as_number(float(function(read_only(array_at(s, d)), _not_negative(i), *last(dereference(pointer)))))

    return flip_cost


def _adapt_log_prob(function, last):
    def log_prob(pointer, s, d):
        return as_number(float(function(read_only(array_at(s, d)), *last(dereference(pointer)))))

    return log_prob


def _adapt_init(function, last):
    def init(pointer, s, d):
        function(read_only(array_at(s, d)), *last(dereference(pointer)))
        return as_status(np.int64(FINE))

    return init


def _adapt_on_flip(function, last):
    def on_flip(pointer, s, d, i):
        function(read_only(array_at(s, d)), _not_negative(i), *last(dereference(pointer)))
        return as_status(np.int64(FINE))

    return on_flip


def _adapt_conditional_means(function, last):
    def conditional_means(pointer, s, d, out, n):
        means = array_at(out, d)
        function(read_only(array_at(s, d)), means, *last(dereference(pointer)))
        for i in range(d):
            if not abs(means[i]) <= 1.0 + _TOLERANCE:  # also true of NaN
                return as_status(np.int64(BAD_AT + i))
        return as_status(np.int64(FINE))

    return conditional_means


def _is_no_mean(out):
    return ~(np.abs(out) <= 1.0 + _TOLERANCE)


ROLES = {
    "flip_cost": Role(("s", "i", "cache"), _adapt_flip_cost, returns_number=True),
    "log_prob": Role(("s",), _adapt_log_prob, returns_number=True),
    "init": Role(("s", "cache"), _adapt_init),
    "on_flip": Role(("s", "i", "cache"), _adapt_on_flip),
    "conditional_means": Role(("s", "out", "cache"), _adapt_conditional_means, bad=_is_no_mean),
}
