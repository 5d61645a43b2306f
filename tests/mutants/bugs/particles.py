"""Bugs of the particle on potentials that are quadratic in pieces, and of what is recorded of its path."""

from __future__ import annotations

from .names import FLIGHT, LOG_PROB, MOMENTS, POTENTIAL, SAME_EVENTS, Bug, Edit, engine

EVENTS = "piecewise/events.py"
METRIC, BPS_OF_PATHS = "piecewise/metric_flight.py", "piecewise/samplers/bps.py"
IN_METRIC = "flight::test_events_in_the_metric_of_the_covariance"
PATHS = "piecewise/recorder.py"
LONG_LEGS = "flight::test_long_legs_have_the_same_events"
INTEGRALS = "flight::test_the_recorder_integrates_the_path"

BUGS: tuple[Bug, ...] = (
    Bug(
        "P1",
        "descending phase of the engine uses the climbing formula",
        (Edit(EVENTS, "    if b < 0.0:\n        return", "    if b < -1e300:\n        return"),),
        (engine("events::test_the_budget_is_spent_at_the_returned_time"), engine("law::test_rates", "normal-2")),
    ),
    Bug(
        "P2",
        "climbing root that cancels",
        (Edit(EVENTS, "2.0 * (budget / (b + root)) if", "((root - b) / c if c != 0.0 else budget / b) if"),),
        (engine("events::test_the_budget_is_spent_at_the_returned_time"),),
    ),
    Bug(
        "P3",
        "going down after the top refunds the budget",
        (Edit(EVENTS, "return -0.5 * b * (b / c)  #", "return t * (b + 0.5 * c * t)  #"),),
        (engine("events::test_the_climb_is_that_of_exact_arithmetic"), engine(SAME_EVENTS, "hills")),
    ),
    Bug(
        "P4",
        "a jump downwards has the sign of the one upwards",
        (Edit(FLIGHT, "else (-1.0, other)", "else (1.0, other)"),),
        (engine("law::test_final_state", "jump-kink-flat"),),
    ),
    Bug(
        "P5",
        "jump without the square of the change of x",
        (Edit(FLIGHT, "dx * (f + 0.5 * A * dx)", "dx * f"),),
        (engine(SAME_EVENTS, "random-3-3"),),
    ),
    Bug(
        "P6",
        "jump at the wrong edge",
        (Edit(FLIGHT, "sign, edge = (1.0, row) if v > 0.0", "sign, edge = (1.0, other) if v > 0.0"),),
        (engine(SAME_EVENTS, "one-coordinate"),),
    ),
    Bug(
        "P7",
        "a kink away from zero is taken for a jump",
        (
            Edit(
                POTENTIAL,
                "end * (cells.tilt + 0.5 * cells.curvature * end) for end",
                "end * (0.5 * cells.curvature * end) for end",
            ),
        ),
        (
            engine("potential::test_jumps_are_differences_of_energy", "random-3-3"),
            engine("potential::test_a_jump_that_is_rounding_is_zero"),
        ),
    ),
    Bug(
        "P8",
        "a kink is not seen by the slope",
        (
            Edit(
                FLIGHT,
                "    slope += v_new * (flight.tilt[i] + flight.curvature[i] * wall) - v * tilt\n",
                "    slope += (v_new - v) * tilt\n",
            ),
        ),
        (engine(SAME_EVENTS, "lasso"),),
    ),
    Bug(
        "P9",
        "a cell that is never entered costs nothing",
        (Edit(POTENTIAL, "np.abs(jump) < _ROUNDING", "np.abs(jump) <= _ROUNDING"),),
        (engine("potential::test_jumps_are_differences_of_energy", "one-coordinate"),),
    ),
    Bug(
        "P10",
        "stale Q after a wall",
        (Edit(FLIGHT, "dx - t * du, flight.F, du, flight.Q)", "dx - t * du, flight.F, 0.0, flight.Q)"),),
        (engine(LONG_LEGS, "boxed"),),
    ),
    Bug(
        "P11",
        "stale F after a wall",
        (Edit(FLIGHT, "i, dx - t * du, flight.F", "i, dx, flight.F"),),
        (engine(LONG_LEGS, "boxed"),),
    ),
    Bug(
        "P12",
        "slope after a crossing without the term of the coordinate itself",
        (Edit(FLIGHT, "u_new * (f + A * dx) - u * f", "(u_new - u) * f"),),
        (engine(SAME_EVENTS, "random-3-3"),),
    ),
    Bug(
        "P13",
        "curvature after a wall without the term of the coordinate itself",
        (Edit(FLIGHT, "du * (2.0 * Q + A * du)", "du * 2.0 * Q"),),
        (engine(SAME_EVENTS, "boxed"),),
    ),
    Bug(
        "P14",
        "half reflection, renormalised (engine)",
        (
            Edit(FLIGHT, "factor = 2.0 * along / square", "factor = along / square"),
            Edit(
                FLIGHT,
                "scale = 1.5 - 0.5 * after / (before if n < y.size else 1.0)",
                "scale = 1.0 / np.sqrt(max(after, 1e-300))",
            ),
        ),
        (engine("law::test_rates", "normal-2"),),
    ),
    Bug(
        "P15",
        "refreshment not of unit length (engine)",
        (
            Edit(
                FLIGHT,
                "    fill_sphere(flight.rng, v)\n",
                "    fill_sphere(flight.rng, v)\n    for i in range(v.size):\n        v[i] *= 1.2\n",
            ),
        ),
        (engine("law::test_final_velocity", "normal-2"),),
    ),
    Bug(
        "P16",
        "refreshment from a normalised cube (engine)",
        (
            Edit(FLIGHT, "import exponential, fill_sphere", "import exponential, uniform"),
            Edit(
                FLIGHT,
                "    fill_sphere(flight.rng, v)\n",
                "    square = 0.0\n"
                "    for i in range(v.size):\n"
                "        v[i] = 2.0 * uniform(flight.rng) - 1.0\n"
                "        square += v[i] * v[i]\n"
                "    for i in range(v.size):\n"
                "        v[i] /= np.sqrt(square)\n",
            ),
        ),
        (engine("law::test_final_velocity", "normal-5"),),
    ),
    Bug(
        "P17",
        "the clock of refreshments stands still at the end of a leg",
        (Edit(FLIGHT, "            leg[T_REFRESH] -= t_leg\n", ""),),
        (engine("law::test_rates", "normal-1"),),
    ),
    Bug(
        "P18",
        "a crossing is free of charge",
        (
            Edit(
                FLIGHT,
                "            passed, flight.toll.purse[0] = pay(flight.toll, flight.toll.purse[0], jump, i)\n",
                "            passed, purse = pay(flight.toll, flight.toll.purse[0], jump, i)\n"
                "            if not passed:\n"
                "                flight.toll.purse[0] = purse\n",
            ),
        ),
        (engine("law::test_final_state", "mixed"),),
    ),
    Bug(
        "P19",
        "a coordinate is forgotten after a wall until the window ends",
        (Edit(FLIGHT, "    if hit < flight.leg[WINDOW_END]:\n", "    if hit < 0.0:\n"),),
        (engine(LONG_LEGS, "flat"),),
    ),
    Bug(
        "P20",
        "the linear part is lost when F is computed anew",
        (Edit(FLIGHT, "            F[i] -= view.linear[i]\n", "            F[i] -= 0.0\n"),),
        (engine(SAME_EVENTS, "gaussian"),),
    ),
    Bug(
        "P21",
        "pieces of a path not weighted by time",
        (Edit(PATHS, "+= 0.5 * dt * (x0 + x1)", "+= 0.5 * (x0 + x1)"),),
        (engine("law::test_time_averages", "correlated"),),
    ),
    Bug(
        "P22a",
        "last piece of each leg dropped",
        (
            Edit(
                PATHS,
                "_integrate(recorder, i, p[i], u[i], t)",
                "_integrate(recorder, i, p[i], u[i], recorder.since[i])",
            ),
        ),
        (engine("law::test_time_averages", "correlated"),),
    ),
    Bug(
        "P22b",
        "time in the last cell of each sweep dropped",
        (
            Edit(
                PATHS,
                "recorder.open_cell[row[i]] += now - recorder.entered_cell[i]",
                "recorder.open_cell[row[i]] += 0.0",
            ),
        ),
        (engine("law::test_time_in_cells", "spike-slab"),),
    ),
    Bug(
        "P23",
        "square without the cross term",
        (Edit(PATHS, "(1.0 / 3.0) * dt * (x0 * x0 + x0 * x1 + x1 * x1)", "0.5 * dt * (x0 * x0 + x1 * x1)"),),
        (engine("law::test_time_averages", "normal-2"),),
    ),
    Bug(
        "P24",
        "looks at a coordinate that has met a wall in the same leg count twice",
        (
            Edit(
                PATHS,
                "            if recorder.since[i] < look:\n                recorder.open_bin[i, np.uint32(",
                "            if True:\n                recorder.open_bin[i, np.uint32(",
            ),
        ),
        (engine(INTEGRALS, "boxed"),),
    ),
    Bug(
        "P25",
        "looks before a wall are left out",
        (Edit(PATHS, "recorder.open_bin[i, _bin_of(recorder, i, p + u * look)] += recorder.span[i]", "pass"),),
        (engine(INTEGRALS, "boxed"),),
    ),
    Bug(
        "P26",
        "products miss the change of speed at a wall",
        (Edit("piecewise/products.py", "row[j] += dp * X + du * T", "row[j] += dp * X"),),
        (engine(INTEGRALS, "boxed"),),
    ),
    Bug(
        "P27",
        "a wall leaves Q of a sparse coupling as it was",
        (Edit("piecewise/coupling.py", "        q[j] += beta * coupling.data[np.uint64(k)]\n", ""),),
        (engine("coupling::test_columns", "sparse"),),
    ),
    Bug(
        "P28",
        "curvature scaled by the length instead of its square",
        (Edit(POTENTIAL, "self.curvature * own**2", "self.curvature * own"),),
        (engine("potential::test_scaling_leaves_energy_and_values_alone", "random-3-3"),),
    ),
    Bug(
        "P29",
        "fields of the spins without the mean of the Gaussians",
        (Edit("piecewise/targets/mixed_binary_gaussian.py", "self._r - C @ mean", "self._r"),),
        ("tests/piecewise/targets/test_mixed_binary_gaussian.py::test_marginal_is_the_integral_over_x",),
    ),
    Bug(
        "P30",
        "log p of a value that a whole cell stands for without the width of the cell",
        (Edit(POTENTIAL, "scale[masses] = log_masses(", "_ = log_masses("),),
        (engine(LOG_PROB, "spike-slab-bps"),),
    ),
    Bug(
        "P31",
        "log p of a run with the widths of cells in scaled coordinates",
        (
            Edit(
                POTENTIAL,
                "potential.linear.copy(), potential.cells.log_scale",
                "potential.linear.copy(), cells.log_scale",
            ),
        ),
        (engine(LOG_PROB, "spike-slab-bps"),),
    ),
    Bug(
        "P32",
        "log p of x without the slope of its cell",
        (Edit(POTENTIAL, "scale[moves] = -np.log(np.abs(self.slope[moves]))", "scale[moves] = 0.0"),),
        (engine(LOG_PROB, "zoo-folded-bps"),),
    ),
    Bug(
        "P40",
        "expectations at the end of a trajectory that do not see the linear term",
        (Edit("piecewise/samplers/hmc.py", "multiply(view.coupling, x, f)", "multiply(view.coupling, values, f)"),),
        (engine(MOMENTS, "truncated gaussian-hmc"),),
    ),
    Bug(
        "P45",
        "bins that are forgotten at the end of a call",
        (Edit("piecewise/motion.py", "    fill_bins(recorder, sweep_time)\n", "    recorder.noted[0] = 0\n"),),
        (engine("gibbs::test_bins_hold_all_time"),),
    ),
    Bug(
        "P57",
        "a trajectory that loses the last quarter of a period",
        (Edit("piecewise/samplers/hmc.py", "elif pieces > 1:", "elif pieces > 2:"),),
        (engine("hmc::test_literal_twin", "5"),),
    ),
    Bug(
        "P58",
        "the time that is left after a wall, as if the wall had been met at once",
        (
            Edit(
                "piecewise/samplers/hmc.py",
                "            C_left, S_left = C_left * c + S_left * s, max(S_left * c - C_left * s, 0.0)\n",
                "",
            ),
        ),
        (engine("hmc::test_literal_twin", "5"),),
    ),
    Bug(
        "P59",
        "log p at the end of a trajectory without its factor 1/2",
        (Edit("piecewise/samplers/hmc.py", "energy += 0.5 * x[i] * f[i]", "energy += x[i] * f[i]"),),
        (engine("hmc::test_gaussian_draws_are_independent"),),
    ),
    Bug(
        "P70",
        "coefficients in the order of their windows, taken for those of the model",
        (Edit(POTENTIAL, "order, place = spiked[order], np", "order, place = spiked, np"),),
        (engine("visits::test_those_that_may_be_in_the_model_come_first"),),
    ),
    Bug(
        "P72",
        "laws at the end of a sweep of the particle, of coordinates instead of values",
        (Edit(FLIGHT, "view, flight.p, flight.F, sweep_time)", "view, flight.y, flight.F, sweep_time)"),),
        (engine(MOMENTS, "mixed-binary-gaussian-truncated-bps"), engine(MOMENTS, "spike-slab-bps")),
    ),
    Bug(
        "P73",
        "a particle that goes on where a variable has no law given the others",
        (Edit(FLIGHT, "    return has_laws\n", "    return True\n"),),
        (engine("gibbs::test_a_density_without_an_integral_is_refused", "bps"),),
    ),
    Bug(
        "Q1",
        "a wall inverts the whole velocity in the metric of the covariance, which keeps the law",
        (
            Edit(METRIC, "        v[j] -= kick * column[j]\n", "        v[j], flight.Q[j] = -v[j], -flight.Q[j]\n"),
            Edit(METRIC, "    flight.Q[i] -= kick\n", ""),
        ),
        (engine(IN_METRIC, "boxed"),),
    ),
    Bug(
        "Q2",
        "a bounce in the metric of the covariance divides by the length of the gradient in another",
        (Edit(METRIC, "square += g[i] * x[i]", "square += g[i] * g[i]"),),
        (engine("law::test_final_state", "correlated-metric"),),
    ),
    Bug(
        "Q3",
        "P v is not kept up to date at walls",
        (Edit(METRIC, "    flight.Q[i] -= kick\n", ""),),
        (engine(IN_METRIC, "boxed"),),
    ),
    Bug(
        "Q4",
        "P v is not kept up to date at bounces",
        (Edit(METRIC, "        Q[i] -= factor * g[i]\n", ""),),
        (engine(IN_METRIC, "gaussian"),),
    ),
    Bug(
        "Q5",
        "velocities are not those of the metric after a refreshment",
        (
            Edit(
                METRIC,
                "    multiply_root(flight.box, flight.hit, flight.v)\n",
                "    for i in range(flight.v.size):\n        flight.v[i] = flight.hit[i]\n",
            ),
        ),
        (engine("law::test_final_velocity", "correlated-metric"),),
    ),
    Bug(
        "Q6",
        "the gradient stays as it was at the last bounce",
        (Edit(METRIC, "        g[i] += Q[i] * t\n", ""),),
        (engine("law::test_final_state", "correlated-metric"), engine(IN_METRIC, "gaussian")),
    ),
    Bug(
        "Q7",
        "a particle goes on with its velocity where the covariance has changed",
        (Edit(BPS_OF_PATHS, "v=np.full(target.d, np.nan)", "v=motion.v"),),
        (engine("metric_flight::test_velocities_are_drawn_where_the_covariance_changes"),),
    ),
    Bug(
        "Q8",
        "a particle goes on with the old covariance",
        (Edit(BPS_OF_PATHS, "target.box()._replace", "motion.box._replace"),),
        (engine("metric_flight::test_velocities_are_drawn_where_the_covariance_changes"),),
    ),
    Bug(
        "Q9",
        "the budget is not renewed at refreshments in the metric of the covariance",
        (
            Edit(
                METRIC,
                "            leg[T_REFRESH] = _time_to_refresh(leg, flight.rng)\n"
                "            leg[BUDGET] = exponential(flight.rng)\n",
                "            leg[T_REFRESH] = _time_to_refresh(leg, flight.rng)\n",
            ),
        ),
        (engine(IN_METRIC, "gaussian"),),
    ),
    Bug(
        "Q10",
        "the gradient is left out of the state",
        (
            Edit(METRIC, '"y", "row", "x", "v", "g", "Q",', '"y", "row", "x", "v", "Q",'),
            Edit(METRIC, '("y", "g", "Q")', '("y", "Q")'),
        ),
        (engine("flight::test_a_restored_state_in_the_metric_continues_with_the_same_bytes", "boxed"),),
    ),
)
