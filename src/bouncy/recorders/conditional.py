"""Conditional means E[s_i | the other spins] from the costs of single flips."""

from __future__ import annotations

from bouncy._compile import helper

# tanh(40 / 2) equals 1 to the last bit.
_SATURATED = 40.0


@helper
def conditional_means(costs, s, out):  # type: ignore[no-untyped-def]
    """Write E[s_i | rest] = s_i tanh(c_i / 2) into `out`, c_i the cost of flipping site i.

    tanh(c/2) is 1 - 2/(e^c + 1), with e^c as the 256th power of a Taylor polynomial of degree 7. Unlike a call of the
    mathematical library this is plain arithmetic, so the loop is vectorised; its absolute error is below 1e-13.
    """
    for i in range(s.size):
        x = max(-_SATURATED, min(_SATURATED, costs[i])) * (1.0 / 256.0)
        x2 = x * x
        e = ((1.0 + x) + x2 * (1.0 / 2.0 + x * (1.0 / 6.0))) + (x2 * x2) * (
            (1.0 / 24.0 + x * (1.0 / 120.0)) + x2 * (1.0 / 720.0 + x * (1.0 / 5040.0))
        )
        e *= e
        e *= e
        e *= e
        e *= e
        e *= e
        e *= e
        e *= e
        e *= e
        out[i] = s[i] * (1.0 - 2.0 / (e + 1.0))
