"""Bugs of swaps and of restricted targets."""

from __future__ import annotations

from .names import Bug, Edit, constraints, swaps

SWAPS = "workers/swap_kernel.py"
CONSTRAINTS = "targets/constraints.py"

BUGS: tuple[Bug, ...] = (
    Bug(
        "48",
        "the integral of a pair of an edge misses the time of the flip",
        (Edit("recorders/pairs.py", "    twice *= t\n", ""),),
        ("tests/run/test_sample.py::test_edges_agree_with_all_pairs",),
    ),
    Bug(
        "49",
        "the integral of all pairs misses the time since the last flip of the other site",
        (Edit("recorders/pairs.py", "row[j] += twice * (path[j] + s[j] * t)", "row[j] += twice * path[j]"),),
        ("tests/run/test_sample.py::test_edges_agree_with_all_pairs",),
    ),
    Bug(
        "50",
        "each of the two terms of the mean of a pair counts whole",
        (Edit("recorders/pairs.py", "+= 0.5 * sign * conditional", "+= sign * conditional"),),
        ("tests/run/test_sample.py::test_edges_agree_with_all_pairs",),
    ),
    Bug(
        "W1",
        "a swap counts the second cost before the first flip",
        (
            Edit(
                SWAPS,
                "        s[up] = -1\n        on_flip(target, s, up)\n"
                "        return first + flip_cost(target, s, down), False",
                "        second = flip_cost(target, s, down)\n        s[up] = -1\n        on_flip(target, s, up)\n"
                "        return first + second, False",
            ),
        ),
        (swaps("test_law_from_exact_starts[12000-0.08-gas]"),),
    ),
    Bug(
        "W2a",
        "candidates are not symmetric: only the first of a pair moves to the second",
        (Edit(SWAPS, "if s[i] == s[j]:", "if s[i] <= s[j]:"),),
        (swaps("test_law_from_exact_starts[12000-0.08-gas-on-edges]"),),
    ),
    Bug(
        "W3",
        "a one-hot start has two spins +1",
        (Edit(CONSTRAINTS, "generator.permutation(group)[:up]", "generator.permutation(group)[: up + 1]"),),
        (constraints("test_starts_are_uniform_on_allowed_states[one-hot]"),),
    ),
    Bug(
        "W4",
        "a swap that is refused leaves the field of its first flip behind",
        (Edit(SWAPS, "    else:\n        on_flip(target, s, up)\n", "    else:\n        return\n"),),
        (swaps("test_every_event_is_that_of_a_literal_twin[gas]"),),
    ),
    Bug(
        "W5",
        "a swap across an impossible state is free",
        (Edit(SWAPS, "return before - log_prob(target, s), True", "return 0.0, True"),),
        (swaps("test_law_from_exact_starts[12000-0.08-walls]"),),
    ),
    Bug(
        "W7",
        "conditional means of a one-hot group weigh places by the wrong sign of their cost",
        (Edit(CONSTRAINTS, "out[i] = exp(least - out[i])", "out[i] = exp(out[i] - least)"),),
        (constraints("test_one_hot_means_are_those_given_the_other_groups"),),
    ),
    Bug(
        "W8",
        "a pair with a small weight is taken where its alias should be",
        (Edit("clocks/pairs.py", ">= pairing.cutoff[e]:", "< pairing.cutoff[e]:"),),
        ("tests/clocks/test_pairs.py::test_attempts_have_their_law",),
    ),
)
