"""Bugs of clocks: billiards, trajectories, scans."""

from __future__ import annotations

from .names import HMC_EXPONENTIAL_TRIANGLE, HMC_TRIANGLE, TRIANGLE, Bug, Edit, law

HARMONIC = "clocks/harmonic.py"
PARABOLIC = "clocks/parabolic.py"
SCANS = "clocks/scans.py"
GAUSSIAN = "clocks/gaussian.py"
EXPONENTIAL = "clocks/exponential.py"
EXPONENTIAL_TRIANGLE = "exponential-frustrated-triangle-dense"
_KEEP_FIRST_COMPONENT = """\
    kept = {w}[0]
    fill_sphere(clock.rng, {w})
    if {refreshing}:
        others = np.sqrt((1.0 - kept * kept) / (1.0 - {w}[0] * {w}[0]))
        for i in range(1, {w}.size):
            {w}[i] *= others
        {w}[0] = kept
"""

BUGS: tuple[Bug, ...] = (
    Bug(
        "2a",
        "half reflection, renormalised (Gaussian)",
        (
            Edit(GAUSSIAN, "c = (rho * rho - x_bounce * x_bounce) * scale", "c = rho * np.sqrt(scale)"),
            Edit(GAUSSIAN, "s = -2.0 * x_bounce * rho * scale", "s = -x_bounce * np.sqrt(scale)"),
            Edit(GAUSSIAN, "        x_start = -x_bounce\n", "        x_start = 0.0\n        rho = np.sqrt(square)\n"),
            Edit(
                GAUSSIAN,
                "    leg[COS], leg[SIN] = cos, sin\n",
                "    leg[COS], leg[SIN], leg[RHO] = cos, sin, rho\n",
            ),
        ),
        (law("test_distances", TRIANGLE),),
    ),
    Bug(
        "2b",
        "half reflection, renormalised (exponential)",
        (
            Edit(
                EXPONENTIAL,
                "    # Distances are the same before and after.\n",
                "    z, w = clock.scratch[0], clock.scratch[1]\n"
                "    position(clock, t, z, w)\n"
                "    scale = 1.0 / np.sqrt(max(1.0 - leg[SLOPE] * leg[SLOPE] / z.size, 1e-9))\n"
                "    for i in range(z.size):\n"
                "        w[i] = (w[i] + 0.5 * kick) * scale\n"
                "    _open_era(clock, t)\n"
                "    return\n",
            ),
        ),
        (law("test_distances", EXPONENTIAL_TRIANGLE),),
    ),
    Bug(
        "5",
        "descending phase uses the climbing formula",
        (
            Edit(GAUSSIAN, "climbed = max(x, 0.0)", "climbed = x"),
            Edit(
                GAUSSIAN,
                "x_bounce = np.sqrt(2.0 * exponential(clock.rng))",
                "x_bounce = np.sqrt(x_start * x_start + 2.0 * exponential(clock.rng))",
            ),
        ),
        (law("test_distances", TRIANGLE),),
    ),
    Bug(
        "10",
        "reflection divides by d - 1",
        (
            Edit(
                EXPONENTIAL,
                "kick = -2.0 * leg[SLOPE] / clock.line.shape[0]",
                "kick = -2.0 * leg[SLOPE] / max(clock.line.shape[0] - 1, 1)",
            ),
        ),
        # In few dimensions the particle speeds up so much that a run does not end.
        (law("test_distances_of_billiard", "exponential-hundred-sites-never-refreshed"),),
    ),
    Bug(
        "11a",
        "refreshment waits for a bounce (Gaussian)",
        (
            Edit(
                GAUSSIAN,
                "t_end = min(t_stop, leg[T_REFRESH])",
                "t_end = min(t_stop, leg[T_START] + leg[X_BOUNCE] - leg[X_START] + 1e-9)",
            ),
            Edit(
                GAUSSIAN,
                "        _refresh(clock, t_end)\n",
                "        if leg[T_REFRESH] <= t_end:\n            _refresh(clock, t_end)\n",
            ),
        ),
        (law("test_distances", TRIANGLE),),
    ),
    Bug(
        "11b",
        "refreshment waits for a bounce (exponential)",
        (
            Edit(EXPONENTIAL, "t_end = min(t_stop, leg[T_REFRESH], leg[T_KNOWN])", "t_end = min(t_stop, leg[T_KNOWN])"),
            Edit(
                EXPONENTIAL,
                "            _bounce(clock, leg[T_BOUNCE])\n",
                "            t_bounce = leg[T_BOUNCE]\n"
                "            _bounce(clock, t_bounce)\n"
                "            if leg[T_REFRESH] <= t_bounce:\n"
                "                position(clock, t_bounce, clock.scratch[0], clock.scratch[1])\n"
                "                _new_velocity(clock, t_bounce)\n"
                "                count[REFRESHMENTS] += 1\n",
            ),
        ),
        (law("test_distances", EXPONENTIAL_TRIANGLE),),
    ),
    Bug(
        "12",
        "climbing decided by the sign of a rounded v.y",
        (
            Edit(
                GAUSSIAN,
                "        x_bounce = np.sqrt(2.0 * exponential(clock.rng))\n",
                "        budget = exponential(clock.rng)\n"
                "        x_bounce = np.sqrt(2.0 * budget)\n"
                "        if x_bounce * x_bounce - 2.0 * budget < 0.0:\n"
                "            x_bounce = np.sqrt(x_bounce * x_bounce + 2.0 * exponential(clock.rng))\n",
            ),
        ),
        (law("test_distances", TRIANGLE),),
    ),
    Bug(
        "16a",
        "refreshment leaves one component of v unchanged (Gaussian)",
        (
            Edit(
                GAUSSIAN,
                "    fill_sphere(clock.rng, w)\n    _schedule_refreshment(clock, t)\n",
                _KEEP_FIRST_COMPONENT.format(w="w", refreshing="True") + "    _schedule_refreshment(clock, t)\n",
            ),
        ),
        (law("test_refreshment_forgets_the_velocity", "gaussian-2"),),
    ),
    Bug(
        "16b",
        "refreshment leaves one component of v unchanged (exponential)",
        (
            Edit(
                EXPONENTIAL,
                "    fill_sphere(clock.rng, clock.scratch[1])\n",
                _KEEP_FIRST_COMPONENT.format(w="clock.scratch[1]", refreshing="t > 0.0"),
            ),
        ),
        (law("test_refreshment_forgets_the_velocity", "exponential-2"),),
    ),
    Bug(
        "23",
        "HMC: position not carried over to the next trajectory",
        (
            Edit(
                HARMONIC,
                "        _distances(clock, t_end, clock.scratch[0])\n",
                "        for i in range(phase.size):\n            clock.scratch[0, i] = 0.0\n",
            ),
        ),
        (law("test_distances", HMC_TRIANGLE),),
    ),
    Bug(
        "24a",
        "HMC: velocity never drawn anew (Gaussian)",
        (
            Edit(
                HARMONIC,
                "        _distances(clock, t_end, clock.scratch[0])\n        _set_off(clock, t_end)\n",
                "        position(clock, t_end, clock.scratch[0], clock.scratch[1])\n        launch(clock, t_end)\n",
            ),
        ),
        (law("test_refreshment_forgets_the_velocity", "hmc-gaussian-2"),),
    ),
    Bug(
        "24b",
        "HMC: velocity never drawn anew (exponential)",
        (Edit(PARABOLIC, "        _set_off(clock, t)\n", "        launch(clock, t)\n"),),
        (law("test_refreshment_forgets_the_velocity", "hmc-exponential-2"),),
    ),
    Bug(
        "26",
        "HMC: a falling site is back after once its speed",
        (Edit(PARABOLIC, "due[i] += max(2.0 * sqrt(2.0", "due[i] += max(1.0 * sqrt(2.0"),),
        (law("test_rates", HMC_EXPONENTIAL_TRIANGLE),),
    ),
    Bug(
        "27",
        "HMC: sites hit in the order of their numbers",
        (
            Edit(
                HARMONIC,
                "    sort_order(w, clock.site, clock.buckets)\n",
                "    for i in range(z.size):\n        clock.site[i] = i\n",
            ),
        ),
        ("tests/samplers/test_hmc.py::test_events_are_those_of_the_literal_twin[gaussian-3-2.0]",),
    ),
    Bug(
        "30",
        "Gibbs: last site never updated",
        (
            Edit(
                SCANS,
                "sites[n + j] = k + j",
                "sites[n + j] = (k + j) % max(d - 1, 1)",
            ),
        ),
        ("tests/samplers/test_scans.py::test_every_site_is_updated",),
    ),
    Bug(
        "51",
        "a site is left alone as if the drift of the era would end",
        (Edit(EXPONENTIAL, "speed = d * w[j] - (elapsed + _SLACK)", "speed = d * (w[j] + drift)"),),
        ("tests/clocks/test_clocks.py::test_positions_are_those_of_the_paper[billiard-exponential-1000]",),
    ),
    Bug(
        "51b",
        "an era goes on although its drift is larger than sites were left alone for",
        (Edit(EXPONENTIAL, "max(-(t - leg[T_ERA] + _SLACK) / clock.line.shape[0], _LOWEST_DRIFT)", "_LOWEST_DRIFT"),),
        ("tests/clocks/test_clocks.py::test_events_are_those_of_the_paper[billiard-exponential-600]",),
    ),
    Bug(
        "51c",
        "a site is left alone for one window too long",
        (Edit(EXPONENTIAL, "first * windows - _ROUNDING", "first * windows + 1.0"),),
        ("tests/clocks/test_clocks.py::test_positions_are_those_of_the_paper[billiard-exponential-1000]",),
    ),
    Bug(
        "52",
        "an era begins with the drift of the last one",
        (Edit(EXPONENTIAL, "    leg[DRIFT] = 0.0\n", ""),),
        ("tests/clocks/test_clocks.py::test_positions_are_those_of_the_paper[billiard-exponential-1000]",),
    ),
    Bug(
        "53",
        "sites after the last whole eight are never near their walls",
        (Edit("clocks/_selecting.py", "range(8 * whole, n)", "range(n, n)"),),
        ("tests/clocks/test_clocks.py::test_positions_are_those_of_the_paper[billiard-exponential-65]",),
    ),
    Bug(
        "53b",
        "hits of a leg that share a bucket are left out of order",
        (Edit("clocks/_sorting.py", "while j > 0 and sorted_keys[j - 1] > key:", "while j > k:"),),
        ("tests/clocks/test_clocks.py::test_positions_are_those_of_the_paper[billiard-exponential-5000]",),
    ),
    Bug(
        "53c",
        "two hits of a leg at the same time count as one",
        (Edit("clocks/_ranking.py", "        _number(keys, _PLACES)\n", ""),),
        ("tests/clocks/test_sorting.py::test_any_few_keys",),
    ),
    Bug(
        "53d",
        "a site that has still to hit in this leg is where its mirror image is",
        (Edit(EXPONENTIAL, "        w[i] = -w[i]\n", ""),),
        ("tests/clocks/test_clocks.py::test_positions_are_those_of_the_paper[billiard-exponential-65]",),
    ),
    Bug(
        "53e",
        "what climbing to the end of a leg without a bounce costs is not spent",
        (Edit(EXPONENTIAL, "max(budget - max(slope, 0.0) * (horizon - last), 0.0)", "budget"),),
        ("tests/clocks/test_clocks.py::test_events_are_those_of_the_paper[billiard-exponential-64]",),
    ),
    Bug(
        "M3",
        "HMC, whose hits depend on the spins, records means after every d of them",
        (Edit("clocks/parabolic.py", "    allocate=_allocate,\n", "    allocate=_allocate,\n    by_attempts=True,\n"),),
        (law("test_conditional_means", HMC_EXPONENTIAL_TRIANGLE),),
    ),
)
