"""Bugs of particles and random walks on densities of users."""

from __future__ import annotations

from .names import Bug, Edit, engine

RAYS = "piecewise/rays.py"
SMOOTH = "piecewise/smooth_flight.py"
WALK = "piecewise/samplers/metropolis.py"
SMOOTH_EVENTS = "smooth_flight::test_events_are_those_of_the_paper"
SPENT = "rays::test_the_budget_is_spent_at_the_returned_time"

BUGS: tuple[Bug, ...] = (
    Bug(
        "R1",
        "the climb begins at the start of the ray, not at the minimum",
        (
            Edit(
                RAYS,
                "tl, ul = _turning_point(ray, y, v, view, tl, ul, sl, tr, ur, sr, 1.0,",
                "tl, _ = _turning_point(ray, y, v, view, tl, ul, sl, tr, ur, sr, 1.0,",
            ),
        ),
        (engine(SPENT, "parabola"), engine(SPENT, "wells")),
    ),
    Bug(
        "R2",
        "the end of a step is taken for the maximum before it",
        (
            Edit(
                RAYS,
                "tr, ur = _turning_point(ray, y, v, view, tl, ul, sl, tr, ur, sr, -1.0,",
                "tr, _ = _turning_point(ray, y, v, view, tl, ul, sl, tr, ur, sr, -1.0,",
            ),
        ),
        (engine(SPENT, "waves"),),
    ),
    Bug(
        "R3",
        "the descending part of a ray is paid for",
        (
            Edit(
                RAYS,
                "        return tr, ur, sr, budget, False, iterated\n    if sl < 0.0 < sr:",
                "        return tr, ur, sr, max(budget - abs(ul - ur), 0.0), False, iterated\n    if sl < 0.0 < sr:",
            ),
        ),
        (engine(SPENT, "wells"),),
    ),
    Bug(
        "R4",
        "the budget is not renewed after a bounce",
        (Edit(RAYS, "    if bounces:\n        ray.leg[BUDGET] = exponential(rng)\n", ""),),
        (engine("density_law::test_rates", "double-well"), engine(SMOOTH_EVENTS, "double-well")),
    ),
    Bug(
        "R5",
        "thinned events are accepted with the share that the bound has of the rate",
        (Edit(RAYS, "uniform(rng) * bound < s", "uniform(rng) * s < bound"),),
        (engine("rays::test_thinned_times_have_the_law_of_the_budget"),),
    ),
    Bug(
        "R6",
        "a thinned event that is refused ends the window",
        (Edit(RAYS, "        t += wait\n", "        t = t + window if t + window < end else end\n"),),
        (engine("rays::test_thinned_times_have_the_law_of_the_budget"),),
    ),
    Bug(
        "R7",
        "a jump has the wrong sign",
        (Edit(SMOOTH, "beyond - ray.leg[U], wall)", "ray.leg[U] - beyond, wall)"),),
        (engine("density_law::test_final_state", "staircase"), engine(SMOOTH_EVENTS, "oblique")),
    ),
    Bug(
        "R8",
        "reflections do not divide by the length of the normal",
        (Edit(SMOOTH, "factor = 2.0 * along / square if square > 0.0 else 0.0", "factor = 2.0 * along"),),
        (engine(SMOOTH_EVENTS, "oblique"),),
    ),
    Bug(
        "R9",
        "reflections are those of another metric",
        (
            Edit(SMOOTH, "square += scale[i] * n[i] * (scale[i] * n[i])", "square += n[i] * n[i]"),
            Edit(SMOOTH, "v[i] -= factor * scale[i] * (scale[i] * n[i])", "v[i] -= factor * n[i]"),
        ),
        (engine(SMOOTH_EVENTS, "oblique"),),
    ),
    Bug(
        "R10",
        "the purse is not renewed after a refused wall",
        (
            Edit(SMOOTH, "        passed, flight.toll.purse[0] = pay(", "        passed, purse = pay("),
            Edit(
                SMOOTH,
                "    if passed:\n        for i in range(d):\n",
                "    if passed:\n        flight.toll.purse[0] = purse\n        for i in range(d):\n",
            ),
            Edit(
                SMOOTH,
                "    passed = False\n    if not failed(view):",
                "    passed, purse = False, 0.0\n    if not failed(view):",
            ),
        ),
        (engine("density_law::test_crossings_balance_jumps"), engine(SMOOTH_EVENTS, "oblique")),
    ),
    Bug(
        "R11",
        "beyond a wall U is still that of the other side",
        (Edit(SMOOTH, "        ray.leg[U] = beyond\n", ""),),
        (engine("smooth_flight::test_draws_are_states_and_their_log_prob"), engine(SMOOTH_EVENTS, "oblique")),
    ),
    Bug(
        "R12",
        "refreshments leave out the scale",
        (Edit(SMOOTH, "        flight.v[i] *= flight.scale[i]\n", "        flight.v[i] *= 1.0\n"),),
        (engine(SMOOTH_EVENTS, "oblique"),),
    ),
    Bug(
        "R13",
        "density is asked on a wall, not beside it",
        (Edit(SMOOTH, "_MARGIN = 2.0**-44\n", "_MARGIN = 0.0\n"),),
        (engine(SMOOTH_EVENTS, "staircase"),),
    ),
    Bug(
        "R14",
        "a refreshment keeps what is left of the budget",
        (
            Edit(
                SMOOTH,
                "refresh[REFRESH_RATE]\n            ray.leg[BUDGET] = exponential(flight.rng)\n",
                "refresh[REFRESH_RATE]\n            ray.leg[BUDGET] += exponential(flight.rng)\n",
            ),
        ),
        (engine("density_law::test_rates", "quartic"), engine(SMOOTH_EVENTS, "mixture")),
    ),
    Bug(
        "R15",
        "a crossing is booked to the cell that it leads to",
        (
            Edit(
                SMOOTH,
                "record_crossing(recorder, wall, row, 1.0, 0.0)",
                "record_crossing(recorder, wall, flight.row[wall], 1.0, 0.0)",
            ),
        ),
        (engine("smooth_flight::test_events_are_those_of_the_quadratic_engine", "everything-0.3"),),
    ),
    Bug(
        "R16",
        "evaluations of the gradient are not counted",
        (Edit("piecewise/by_address.py", "    evaluations[OF_GRADIENT] += 1\n", ""),),
        (engine("smooth_flight::test_evaluations_are_counted"),),
    ),
    Bug(
        "R19",
        "a density with other data has the functions of the old ones",
        (
            Edit(
                "piecewise/targets/density.py",
                "        other._binding = self._binding.given(read_data(data))\n",
                "        self._binding.given(read_data(data))\n",
            ),
        ),
        (engine("density::test_a_density_within_a_gibbs_scheme"),),
    ),
    Bug(
        "R20",
        "a state that a proposal was refused in does not count again",
        (Edit(WALK, "            held = 0.0\n        held += 1.0\n", "            held = 1.0\n"),),
        (
            engine("metropolis::test_law", "staircase"),
            engine("metropolis::test_steps_are_those_of_the_twin", "oblique-False"),
        ),
    ),
    Bug(
        "R21",
        "proposals are as wide as the squares of the scale",
        (Edit(WALK, "walk.scale[i] * walk.n", "walk.scale[i] * walk.scale[i] * walk.n"),),
        (engine("metropolis::test_steps_are_those_of_the_twin", "oblique-False"),),
    ),
    Bug(
        "R22",
        "a proposal pays for gains of log p too",
        (Edit(WALK, "if proposed - U < exponential(rng):", "if abs(proposed - U) < exponential(rng):"),),
        (engine("metropolis::test_law", "polytope"), engine("metropolis::test_law", "staircase")),
    ),
    Bug(
        "R23",
        "the step adapts to what is recorded",
        (Edit(WALK, "walk.step[TUNED] if stages else inf, 0.0", "walk.step[TUNED], 0.0"),),
        (engine("metropolis::test_scale_and_step_stay_while_results_are_recorded"),),
    ),
    Bug(
        "R25",
        "the last variable keeps still where proposals are correlated",
        (Edit(WALK, "walk.order.size, drawn)", "walk.order.size - 1, drawn)"),),
        (engine("metropolis::test_steps_are_those_of_the_twin", "oblique-False"),),
    ),
    Bug(
        "R26",
        "correlations of a few moves are believed",
        (Edit(WALK, "if few or not length.all():", "if not length.all():"),),
        (engine("metropolis::test_correlations_are_mixed_with_those_so_far"),),
    ),
)
