"""Bugs of samplers and estimates that use laws of variables given the others."""

from __future__ import annotations

from .names import LOG_PROB, MOMENTS, Bug, Edit, controls, engine

EXACT = "gibbs::test_independent_coefficients_have_exact_inclusions"
KEPT = "gibbs::test_law_is_kept_from_exact_starts"
EXPECTATIONS = "piecewise/expectations.py"
SPIKES, SPIKE_MOVES, MARGINALS = (f"piecewise/{name}.py" for name in ("spikes", "spike_moves", "marginals"))

BUGS: tuple[Bug, ...] = (
    Bug(
        "P33",
        "log p of a value of one cell alone, although others have it too",
        (Edit("piecewise/weights.py", "other != row and (", "False and ("),),
        (engine(LOG_PROB, "zoo-folded-bps"),),
    ),
    Bug(
        "P34",
        "log p of a run without the linear term",
        (Edit("piecewise/weights.py", "x[i] * (f[i] - view.linear[i])", "x[i] * f[i]"),),
        (engine(LOG_PROB, "lasso-bps"),),
    ),
    Bug(
        "P35",
        "a cell weighted without the mass of its normal",
        (Edit(EXPECTATIONS, "weight = law.integral[row]\n", "weight = 1.0 if law.integral[row] > 0.0 else 0.0\n"),),
        (engine(MOMENTS, "spike-slab-positive-gibbs"),),
    ),
    Bug(
        "P36",
        "the wrong side of a truncated normal whose peak is inside",
        (Edit("piecewise/truncated.py", "(abs(z) if slope > 0.0 else z)", "abs(z)"),),
        (engine("truncated::test_draws_follow_the_law", "case6"), engine(KEPT, "False-quadrant")),
    ),
    Bug(
        "P37",
        "A x - b that misses what decreases",
        (Edit(SPIKE_MOVES, "if step != 0.0:", "if step > 0.0:"),),
        (engine("gibbs::test_products_are_kept_up_to_date"),),
    ),
    Bug(
        "P38",
        "E[x^2] without the variance within cells",
        (
            Edit(
                EXPECTATIONS,
                "square += weight * (law.variance[row] + law.mean[row] * law.mean[row])",
                "square += weight * law.mean[row] * law.mean[row]",
            ),
        ),
        (engine(MOMENTS, "spike-slab-positive-gibbs"),),
    ),
    Bug(
        "P39",
        "a point mass that counts twice",
        (Edit(EXPECTATIONS, "view.log_still[row], 1.0, c, 0.0", "view.log_still[row], 2.0, c, 0.0"),),
        (engine(MOMENTS, "spike-slab-positive-gibbs"),),
    ),
    Bug(
        "P41",
        "a table whose two parts do not meet where the peak is at the end of a half-line",
        (
            Edit(
                "piecewise/truncated.py",
                "place = _PANELS * (1.0 + rho * unit * (1.0 if rho >= 0.0 else 1.0 / _FURTHEST))",
                "place = _PANELS * (1.0 + rho * unit * (1.0 if rho > 0.0 else 1.1 / _FURTHEST))",
            ),
        ),
        (engine("truncated::test_moments_are_those_of_quadrature", "case6"),),
    ),
    Bug(
        "P42",
        "an exchange of coefficients that does not see what is taken away",
        (Edit(SPIKE_MOVES, "    r_j += entry(view.coupling, j, i) * (point_i - scan.x[i])\n", ""),),
        (engine("gibbs::test_exchanges_keep_the_law", "given all others"),),
    ),
    Bug(
        "P43",
        "an exchange of coefficients whatever their slabs and partners are",
        (
            Edit(
                SPIKE_MOVES,
                "if uniform(scan.rng) > ways * exp(min(gain, 700.0)):",
                "if uniform(scan.rng) > exp(min(gain, 700.0)):",
            ),
        ),
        (engine("gibbs::test_exchanges_keep_the_law", "given all others"),),
    ),
    Bug(
        "P44",
        "the two sides of a normal around a spike, the wrong way round",
        (Edit(SPIKE_MOVES, "    if x > point:\n", "    if x < point:\n"),),
        (engine("gibbs::test_places_are_in_their_cells", "given all others"),),
    ),
    Bug(
        "P46",
        "a normal beside a point mass that is weighted without its peak",
        (
            Edit(
                SPIKES,
                "ratio = constants[at + ODDS + k] * exp(-0.5 * r * r * constants[at + VARIANCE + k])",
                "ratio = constants[at + ODDS + k] * exp(0.0 * r)",
            ),
        ),
        (engine(MOMENTS, "spike-slab-gibbs"),),
    ),
    Bug(
        "P47",
        "E[t^2] of a half-line in the place of its variance",
        (Edit("piecewise/truncated.py", "(1.0 - rho * mean) - mean * mean", "(1.0 - rho * mean)"),),
        (engine("truncated::test_moments_are_those_of_quadrature", "case5"),),
    ),
    Bug(
        "P48",
        "coefficients that leave zero as often as they leave the slab",
        (
            Edit(
                SPIKES,
                "k])\n        stays = 1.0 - min(1.0 / ratio if found[to + RESTS + k] != 0.0 else ratio, 1.0)",
                "k])\n        stays = 1.0 - min(ratio, 1.0)",
            ),
        ),
        (engine("gibbs::test_points_other_than_zero_among_normal_variables", "gibbs"),),
    ),
    Bug(
        "P49",
        "one random number for all coefficients of a sweep that leave their side",
        (
            Edit(
                SPIKE_MOVES,
                "                stayed, bound = 1.0, uniform(scan.rng)\n",
                "                stayed = 1.0\n",
            ),
        ),
        (engine(EXACT, "given all others-False"),),
    ),
    Bug(
        "P50",
        "overrelaxation with noise as if nothing of the old value were kept",
        (Edit(SPIKE_MOVES, "_NOISE = sqrt(1.0 - _OVERRELAXED**2)", "_NOISE = 1.0"),),
        (engine("gibbs::test_points_other_than_zero_among_normal_variables", "gibbs"),),
    ),
    Bug(
        "P51",
        "slopes of a window that are stale after one of its coefficients has changed",
        (
            Edit(
                SPIKE_MOVES,
                "find_slopes(found, spikes, scan.F, scan.x, window, begin, end)",
                "find_slopes(found, spikes, scan.F, scan.x, window, begin, 0 if begin else end)",
            ),
        ),
        (engine("gibbs::test_exchanges_keep_the_law", "given all others"),),
    ),
    Bug(
        "P52",
        "E[x^2] of coefficients that may be zero without the variance of the slab",
        (
            Edit(
                SPIKES,
                "variance * (share + each * variance * found[to + SUM_RR])",
                "variance * (each * variance * found[to + SUM_RR])",
            ),
        ),
        (engine(EXACT, "given all others-False"),),
    ),
    Bug(
        "P53",
        "the path of coefficients that rest at a point other than zero, recorded as if that were zero",
        (Edit(SPIKES, "        path_mean[i] += point * path_time\n", ""),),
        (engine("gibbs::test_points_other_than_zero_among_normal_variables", "gibbs"),),
    ),
    Bug(
        "P54",
        "a reflection about the mean whatever the density is there",
        (Edit(EXPECTATIONS, "if rise <= 0.0 or passes(state, rise):", "if rise < inf:"),),
        (engine("gibbs::test_reflections_keep_the_law", "half-lines"),),
    ),
    Bug(
        "P55",
        "a reflection that does not see the jump at an edge",
        (Edit(EXPECTATIONS, "return view.constant[row] + y * (law.tau", "return y * (law.tau"),),
        (engine("gibbs::test_reflections_keep_the_law", "bent"),),
    ),
    Bug(
        "P56",
        "distances from a wall that are exchanged as if their law were exponential",
        (
            Edit(
                "piecewise/truncated.py",
                "return new if passes(state, (new - t) * (slope - rate + 0.5 * kappa * (new + t))) else t",
                "return new if new < inf else t",
            ),
        ),
        (engine("gibbs::test_reflections_keep_the_law", "half-lines"),),
    ),
    Bug(
        "P60",
        "coefficients that stay where they are when another flips for which they were integrated out",
        (
            Edit(
                SPIKE_MOVES,
                "scan.x[marginals.active[a]] += back * marginals.weight[a]",
                "scan.x[marginals.active[a]] += 0.0 * marginals.weight[a]",
            ),
        ),
        (engine("gibbs::test_marginals_are_kept_up_to_date"),),
    ),
    Bug(
        "P61",
        "coefficients integrated out of the exponent of a mass, and not of its width",
        (
            Edit(
                SPIKES,
                "* spread) / np.sqrt(spread)",
                "* spread)",
            ),
        ),
        (engine("gibbs::test_spike_and_slab_is_that_of_all_models", "jointly"),),
    ),
    Bug(
        "P62",
        "a joint exchange with the precision that the new coefficient has beside the old one",
        (
            Edit(
                MARGINALS,
                "marginals.precision[j] + share * c",
                "marginals.precision[j]",
            ),
        ),
        (engine("gibbs::test_exchanges_keep_the_law", "jointly"),),
    ),
    Bug(
        "P63",
        "a coefficient that leaves without giving back what it explained",
        (
            Edit(
                MARGINALS,
                "sign = 1.0 if enters else -1.0",
                "sign = 1.0",
            ),
        ),
        (engine("gibbs::test_marginals_are_kept_up_to_date"),),
    ),
    Bug(
        "P64",
        "E[x^2] with the variance given all others where these are integrated out",
        (
            Edit(
                SPIKES,
                "(r * r + constants[at + PRECISION + k] * (spread - 1.0))",
                "(r * r)",
            ),
        ),
        (engine(MOMENTS, "spike-slab-gibbs"),),
    ),
    Bug(
        "P65",
        "laws of coefficients that are visited several times in a sweep, as if it had been once",
        (Edit(SPIKES, "weight / spikes.times[k // WINDOW]", "weight"),),
        (engine(EXACT, "given all others-True"),),
    ),
    Bug(
        "P66",
        "coefficients that are never visited",
        (Edit(SPIKE_MOVES, "else spikes.visits.size):", "else spikes.visits.size - 1):"),),
        (engine(EXACT, "given all others-True"),),
    ),
    Bug(
        "P67",
        "visits of one window that count for another",
        (
            Edit(
                SPIKES,
                "weight / spikes.times[k // WINDOW]",
                "weight / spikes.times[spikes.times.size - 1 - k // WINDOW]",
            ),
        ),
        (engine(EXACT, "given all others-True"),),
    ),
    Bug(
        "P68",
        "products with coefficients that are visited several times in a sweep, as if it had been once",
        (Edit(SPIKE_MOVES, "weight * laws / times", "weight * laws"),),
        (engine("gibbs::test_repeated_visits_keep_the_law", "given all others"),),
    ),
    Bug(
        "P69",
        "joint flips whose laws count once where others count several times",
        (Edit(SPIKE_MOVES, "laws = times if jointly else 1.0", "laws = 1.0"),),
        (engine("gibbs::test_repeated_visits_keep_the_law", "jointly"),),
    ),
    Bug(
        "V1",
        "the pull of a variable on itself among that of the others",
        (Edit("piecewise/expectations.py", "(f + view.linear[i] - view.diagonal[i] * x[i])", "(f + view.linear[i])"),),
        (controls("test_a_gaussian_is_known_after_a_few_sweeps"),),
    ),
    Bug(
        "V5",
        "the response of a coefficient that may be zero with the wrong sign",
        (Edit(SPIKES, "cross = share * (1.0 - share) * r", "cross = share * (share - 1.0) * r"),),
        (controls("test_spike_and_slab_gains_and_its_cells_add_up_to_one[gibbs]"),),
    ),
    Bug(
        "V10",
        "the response of a side of a point as its share of the mass",
        (Edit(SPIKES, "cross * below + (1.0 - share) * density", "cross * below"),),
        (controls("test_spike_and_slab_gains_and_its_cells_add_up_to_one[gibbs]"),),
    ),
    Bug(
        "N14",
        "laws of coefficients that Gibbs looks at often count too little with BPS",
        (Edit(SPIKES, "window, spikes.times[window])", "window, 1.0)"),),
        (engine("spike_slab::test_laws_of_many_coefficients"),),
    ),
    Bug(
        "N15",
        "a path that is recorded in full is taken for what differs from resting at points",
        (
            Edit(
                SPIKES,
                "    windows.sweeps[LAWS] += 1\n",
                "    windows.sweeps[LAWS] += 1\n    windows.sweeps[PATHS] += 1\n",
            ),
        ),
        (engine("conformance::test_times_in_cells_and_bins_add_up", "spike-slab-bps"),),
    ),
)
