"""Bugs that a sampler of this kind could have, each as a change of the sources, and the tests that must notice it.

A letter after the number tells apart the two clocks, the two storages or two readings of the same bug. Many of these
bugs leave the law of s exactly right, so that only the law of the clock or the rates of its events show them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Edit:
    """One replacement in a file below src/bouncy; `old` occurs there exactly once."""

    file: str
    old: str
    new: str


@dataclass(frozen=True)
class Bug:
    """A planted bug and the tests, as pytest node ids, of which at least one must fail."""

    number: str
    description: str
    edits: tuple[Edit, ...]
    tests: tuple[str, ...]


def law(test: str, case: str) -> str:
    """Return the node id of a test of the stationary law."""
    return f"tests/law/test_stationary.py::{test}[{case}]"


def conformance(test: str, case: str) -> str:
    """Return the node id of a test that every target passes."""
    return f"tests/targets/test_conformance.py::{test}[{case}]"


def engine(test: str, case: str = "") -> str:
    """Return the node id of a test of the general engine: `file::test` and the case, if there are several."""
    file, _, name = test.partition("::")
    return f"tests/piecewise/test_{file}.py::{name}" + (f"[{case}]" if case else "")


def storage(test: str) -> str:
    """Return the node id of a test of what is stored: `file::test`."""
    return f"tests/storage/test_{test.replace('::', '.py::', 1)}"


def goals(test: str) -> str:
    """Return the node id of a test of where runs end."""
    return f"tests/run/test_goals.py::{test}"


def controls(test: str) -> str:
    """Return the node id of a test of control variates."""
    return f"tests/results/test_controls.py::{test}"


def clusters(test: str, case: str = "") -> str:
    """Return the node id of a test of cluster samplers."""
    return f"tests/samplers/test_clusters.py::{test}" + (f"[{case}]" if case else "")


def swaps(test: str) -> str:
    """Return the node id of a test of swaps."""
    return f"tests/samplers/test_swaps.py::{test}"


def constraints(test: str) -> str:
    """Return the node id of a test of restricted targets."""
    return f"tests/targets/test_constraints.py::{test}"


def swap_ladder(test: str) -> str:
    """Return the node id of a test of ladders whose lanes exchange spins."""
    return f"tests/workers/test_swap_ladder.py::{test}"


def ladder(test: str) -> str:
    """Return the node id of a test of ladders."""
    return f"tests/workers/test_ladder.py::{test}"


def tempered(test: str) -> str:
    """Return the node id of a test of tempered runs."""
    return f"tests/run/test_tempered.py::{test}"


def flock(test: str) -> str:
    """Return the node id of a test of chains that share a clock."""
    return f"tests/workers/test_flock.py::{test}"


def reading(case: str) -> str:
    """Return the node id of a test of what ladders read of all lanes."""
    return f"tests/targets/test_lanes.py::test_a_ladder_reads_log_prob_of_all_lanes_and_means_of_some[{case}]"


def lanes(test: str) -> str:
    """Return the node id of a test of runs whose chains share clocks."""
    return f"tests/run/test_lanes.py::{test}"


def twin(case: str) -> str:
    """Return the node id of the comparison of lanes with a plain loop."""
    return flock(f"test_lanes_are_chains_of_a_plain_loop[{case}]")


BUDGET = "tolls/budget.py"
KINETIC = "tolls/kinetic.py"
HEAT_BATH = "tolls/heat_bath.py"
HARMONIC = "clocks/harmonic.py"
PARABOLIC = "clocks/parabolic.py"
SCANS = "clocks/scans.py"
HMC = "samplers/hmc.py"
SAMPLE = "_sample.py"
RANDOM = "_random.py"
RECORDER = "recorders/recorder.py"
CLUSTER_SUMS = "recorders/clusters.py"
CLUSTERS = "workers/cluster_kernel.py"
GAUGE = "targets/gauge.py"
SWAPS = "workers/swap_kernel.py"
SWAP_LADDER = "workers/swap_ladder_kernel.py"
CONSTRAINTS = "targets/constraints.py"
BATCHES = "recorders/batches.py"
TRACKED = "recorders/tracked.py"
KERNEL = "workers/kernel.py"
GAUSSIAN = "clocks/gaussian.py"
EXPONENTIAL = "clocks/exponential.py"
FIELDS = "targets/fields.py"
FIELD_LANES = "targets/field_lanes.py"
BY_ADDRESS = "targets/by_address.py"
CUSTOM = "targets/custom.py"
CONDITIONING = "targets/conditioning.py"
CONTRACT = "targets/contract.py"
MRF = "targets/mrf.py"
EVENTS = "piecewise/events.py"
METRIC, BPS_OF_PATHS = "piecewise/metric_flight.py", "piecewise/samplers/bps.py"
IN_METRIC = "flight::test_events_in_the_metric_of_the_covariance"
FLIGHT = "piecewise/flight.py"
RAYS = "piecewise/rays.py"
SMOOTH = "piecewise/smooth_flight.py"
WALK = "piecewise/samplers/metropolis.py"
POTENTIAL = "piecewise/potential.py"
MOMENTS = "conformance::test_moments_are_those_of_quadrature"
EXACT = "gibbs::test_independent_coefficients_have_exact_inclusions"
KEPT = "gibbs::test_law_is_kept_from_exact_starts"
EXPECTATIONS = "piecewise/expectations.py"
CONTROLS = "results/controls.py"
POINTS = "piecewise/points.py"
SPIKES, SPIKE_MOVES, MARGINALS = (f"piecewise/{name}.py" for name in ("spikes", "spike_moves", "marginals"))
LOG_PROB = "weights::test_log_prob_of_a_run_is_that_of_its_target"
PATHS = "piecewise/recorder.py"
ARCHIVE = "storage/archive.py"
CHECKPOINT = "storage/checkpoint.py"
INTERCHANGE = "storage/interchange.py"
ROWS = "storage/rows.py"
PRECISION = "run/precision.py"
DRIVER = "run/driver.py"
POOL = "run/pool.py"
VECTOR = "_vector.py"
# Where a site of all lanes is about to be tried.
_PAYING = "    lane_costs(target, s, i, attempt.single)\n"
LANE_TOLL = "tolls/lanes.py"
LANE_READING = "targets/_lane_reading.py"
_FIRST_LANES = "self.builder.add(start, self.lane) if self.count < 32 else start"
LANE_RECORDER = "recorders/lanes.py"
LADDER_TOLL = "tolls/ladder.py"
LADDER_RECORDER = "recorders/ladder.py"
LADDER = "workers/ladder.py"
ADDRESS_LANES = "targets/address_lanes.py"
LANES_CONTRACT = "targets/lanes.py"
TEMPERED = "results/tempered.py"
PILOT = "samplers/_pilot.py"
AUTO = "samplers/auto.py"
FLOCK = "workers/flock.py"
FLOCK_KERNEL = "workers/flock_kernel.py"
SAME_EVENTS = "flight::test_events_are_those_of_the_paper"
SMOOTH_EVENTS = "smooth_flight::test_events_are_those_of_the_paper"
SPENT = "rays::test_the_budget_is_spent_at_the_returned_time"
LONG_LEGS = "flight::test_long_legs_have_the_same_events"
INTEGRALS = "flight::test_the_recorder_integrates_the_path"

TRIANGLE = "gaussian-frustrated-triangle-dense"
SPARSE_TRIANGLE = "gaussian-frustrated-triangle-sparse"
EXPONENTIAL_TRIANGLE = "exponential-frustrated-triangle-dense"
HMC_TRIANGLE = "hmc-gaussian-frustrated-triangle-dense"
HMC_EXPONENTIAL_TRIANGLE = "hmc-exponential-frustrated-triangle-dense"
GIBBS_TRIANGLE = "gibbs-systematic-frustrated-triangle-dense"
METROPOLIS_TRIANGLE = "metropolis-systematic-frustrated-triangle-dense"

# The last sweep of a run ends where the particle next meets a wall, and counts the time until then.
_ONE_HIT_MORE = """\
        elapsed = sweep_time
        if sweep == n_sweeps - 1:
            passed = False
            while not passed:
                fill(clock, 1e300, times[:1], sites[:1])
                elapsed = times[0]
                passed, purse = pay(toll, purse, flip_cost(target, s, sites[0]), sites[0])
                if passed:
                    record_flip(recorder, s, sites[0], elapsed)
                    s[sites[0]] = -s[sites[0]]
                    on_flip(target, s, sites[0])
                    flips += 1
                hits += 1
                {stop}
        shift(clock, elapsed)
"""

_KEEP_FIRST_COMPONENT = """\
    kept = {w}[0]
    fill_sphere(clock.rng, {w})
    if {refreshing}:
        others = np.sqrt((1.0 - kept * kept) / (1.0 - {w}[0] * {w}[0]))
        for i in range(1, {w}.size):
            {w}[i] *= others
        {w}[0] = kept
"""


def _overrun(stop: str) -> tuple[Edit, ...]:
    return (
        Edit(KERNEL, "        shift(clock, sweep_time)\n", _ONE_HIT_MORE.format(stop=stop)),
        Edit(KERNEL, "record_sweep(recorder, target, s, sweep_time)", "record_sweep(recorder, target, s, elapsed)"),
    )


BUGS = (
    Bug(
        "1",
        "segments between flips not weighted by time",
        (
            Edit(RECORDER, "elapsed=np.zeros(1),", "elapsed=np.zeros(2),"),
            Edit(
                RECORDER,
                "    t += recorder.elapsed[0]\n",
                "    recorder.elapsed[1] += 1.0\n    t = recorder.elapsed[1]\n",
            ),
        ),
        ("tests/workers/test_slices.py::test_path_averages_equal_those_of_the_event_list[gibbs]",),
    ),
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
        "3",
        "paid toll not subtracted from the budget",
        (Edit(BUDGET, "return True, purse - max(cost, 0.0)", "return True, purse"),),
        (law("test_final_state", TRIANGLE),),
    ),
    Bug(
        "4",
        "last partial segment dropped",
        (
            Edit(RECORDER, "elapsed=np.zeros(1),", "elapsed=np.zeros(2),"),
            Edit(
                RECORDER,
                "    t += recorder.elapsed[0]\n",
                "    t += recorder.elapsed[0]\n    recorder.elapsed[1] = t\n",
            ),
            Edit(RECORDER, "    t = float(recorder.elapsed[0])\n", "    t = float(recorder.elapsed[1])\n"),
        ),
        ("tests/workers/test_slices.py::test_path_averages_equal_those_of_the_event_list[gibbs]",),
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
        "6",
        "refreshment from a normalised cube",
        (
            Edit(
                RANDOM,
                "        fill_normal(state, out)\n",
                "        for i in range(out.size):\n            out[i] = 2.0 * uniform(state) - 1.0\n",
            ),
        ),
        ("tests/test_random.py::test_direction_law[3]", law("test_speeds", TRIANGLE)),
    ),
    Bug(
        "7a",
        "stale local field of one neighbour (dense)",
        (
            Edit(
                FIELDS,
                "        for j in range(h.size):\n            h[j] += change",
                "        for j in range(h.size - 1):\n            h[j] += change",
            ),
        ),
        (law("test_final_state", TRIANGLE),),
    ),
    Bug(
        "7b",
        "stale local field of one neighbour (sparse)",
        (
            Edit(
                FIELDS,
                "self.indptr[i + 1]):\n            self.h[self.indices[k]]",
                "self.indptr[i + 1] - 1):\n            self.h[self.indices[k]]",
            ),
        ),
        (law("test_final_state", SPARSE_TRIANGLE),),
    ),
    Bug(
        "8",
        "left-over budget kept after a refusal",
        (Edit(BUDGET, "return False, exponential(toll.rng)", "return False, purse"),),
        (law("test_final_state", TRIANGLE),),
    ),
    Bug(
        "9",
        "flip cost without the factor 2",
        (Edit(FIELDS, "return -2.0 * s[i] * view.h[i]", "return -1.0 * s[i] * view.h[i]"),),
        (law("test_final_state", TRIANGLE), law("test_final_state", SPARSE_TRIANGLE)),
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
        "13",
        "crossing tolerance of 0.05",
        (Edit(BUDGET, "if cost < purse:", "if cost < purse + 0.05:"),),
        (law("test_final_state", TRIANGLE),),
    ),
    Bug(
        "14",
        "velocity not normalised",
        (Edit(RANDOM, "    for i in range(out.size):\n        out[i] /= norm\n", ""),),
        (law("test_rates", TRIANGLE),),
    ),
    Bug(
        "15",
        "downhill motion refunds the budget",
        (Edit(BUDGET, "purse - max(cost, 0.0)", "purse - cost"),),
        (law("test_final_state", TRIANGLE),),
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
        "17a",
        "run stops at the first wall hit after T",
        _overrun(stop="break"),
        (law("test_distances", TRIANGLE),),
    ),
    Bug(
        "17b",
        "run stops at the first crossing after T",
        _overrun(stop="continue"),
        (law("test_final_state", TRIANGLE),),
    ),
    Bug(
        "18",
        "exponential variates from a 10-bit uniform",
        (
            Edit(
                RANDOM,
                "return -math.log(uniform(state))",
                "return -math.log((np.int64(next_bits(state) >> np.uint64(54)) + 1) * 2.0**-10)",
            ),
        ),
        ("tests/test_random.py::test_exponential_law",),
    ),
    Bug(
        "20",
        "HMC: half of the cost taken from the kinetic energy",
        (Edit(KINETIC, "toll.energy[i] = min(energy - cost, _LARGEST)", "toll.energy[i] = energy - 0.5 * cost"),),
        (law("test_final_state", HMC_TRIANGLE), law("test_final_state", HMC_EXPONENTIAL_TRIANGLE)),
    ),
    Bug(
        "21",
        "HMC: sign of the cost",
        (Edit(KINETIC, "toll.energy[i] = min(energy - cost, _LARGEST)", "toll.energy[i] = energy + cost"),),
        (law("test_final_state", HMC_TRIANGLE), law("test_final_state", HMC_EXPONENTIAL_TRIANGLE)),
    ),
    Bug(
        "22",
        "HMC: speed lost where a wall is refused",
        (
            Edit(
                KINETIC,
                "    return passed, purse\n",
                "    else:\n        toll.energy[i] *= 0.9\n    return passed, purse\n",
            ),
        ),
        (law("test_distances", HMC_TRIANGLE), law("test_distances", HMC_EXPONENTIAL_TRIANGLE)),
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
        "25",
        "HMC: travel time an integer multiple of pi, without a warning",
        (
            Edit(HMC, "DEFAULT_TRAVEL_TIME = 6.5 * pi", "DEFAULT_TRAVEL_TIME = 6.0 * pi"),
            Edit(HMC, "_NEAR = 1e-3", "_NEAR = -1.0"),
        ),
        ("tests/law/test_ergodic.py::test_law_is_reached_from_every_start[hmc-flat]",),
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
        "28",
        "Gibbs: sigmoid of the wrong argument",
        (Edit(HEAT_BATH, "(1.0 + np.exp(np.arange(", "(1.0 + np.exp(2.0 * np.arange("),),
        ("tests/samplers/test_scans.py::test_heat_bath_probability[0.5]", law("test_final_state", GIBBS_TRIANGLE)),
    ),
    Bug(
        "29",
        "Gibbs: all sites drawn given the sweep before",
        (Edit(KERNEL, "cost = flip_cost(target, s, i)", "cost = 2.0 * s[i] * np.arctanh(recorder.conditional[i])"),),
        (law("test_final_state", GIBBS_TRIANGLE),),
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
        "31",
        "Metropolis: only accepted states recorded",
        (
            Edit(
                KERNEL,
                "record_flip(recorder, s, i, times[k])",
                "record_flip(recorder, s, i, sweep_time * (flips + 1) / (hits + n))",
            ),
        ),
        (law("test_time_averages", METROPOLIS_TRIANGLE),),
    ),
    Bug(
        "32",
        "chains: the same seed twice",
        (
            Edit(
                SAMPLE,
                "setup.new_workers(root.spawn(chains),",
                "setup.new_workers([np.random.SeedSequence(root.entropy) for _ in range(chains)],",
            ),
        ),
        ("tests/run/test_sample.py::test_chains_differ",),
    ),
    Bug(
        "33",
        "chains: a restored chain goes on with another stream of random numbers",
        (Edit(BUDGET, '@part("purse", "rng")', '@part("purse")'),),
        ("tests/workers/test_states.py::test_restored_workers_go_on_with_the_same_bytes[metropolis]",),
    ),
    Bug(
        "34",
        "int8 overflow in the sum of spins",
        (Edit(RECORDER, "            total += s[i]\n", "            total = np.int8(total + s[i])\n"),),
        ("tests/run/test_sample.py::test_magnetisation_does_not_overflow",),
    ),
    Bug(
        "35",
        "sums of a batch lost where batches are added up",
        (Edit(BATCHES, "first[name] + second[name]", "2.0 * first[name]"),),
        ("tests/recorders/test_batches.py::test_batches_hold_consecutive_steps_of_equal_number",),
    ),
    Bug(
        "36",
        "a cost of minus infinity passes for a cost",
        (
            Edit(
                BY_ADDRESS,
                "if not cost > -np.inf:  # also true of NaN\n        _judge",
                "if cost != cost:\n        _judge",
            ),
        ),
        ("tests/targets/test_custom.py::test_what_cannot_be_a_cost_stops_the_chain[infinite gain-python]",),
    ),
    Bug(
        "37",
        "a target that fails does not stop its chain",
        (
            Edit(
                KERNEL,
                "            if failed(target):\n                return n_sweeps - sweep\n            room",
                "            room",
            ),
            Edit(KERNEL, "if not cost > -np.inf and failed(target):", "if False:"),
            Edit(
                KERNEL,
                "                    if failed(target):\n                        return n_sweeps - sweep\n",
                "",
            ),
        ),
        ("tests/targets/test_custom.py::test_no_cost_is_asked_for_after_a_flip_that_failed[compiled]",),
    ),
    Bug(
        "38",
        "log p alone: the value of the state before is kept after a flip",
        (Edit(CUSTOM, "self.values[0] = self.values[1] if", "self.values[0] = self.values[0] if"),),
        (conformance("test_functions_agree", "custom-log-prob"),),
    ),
    Bug(
        "39",
        "the cache of the whole target misses a flip of the clamped one",
        (Edit(CONDITIONING, "        on_flip(self.inner, self.full, self.free[i])\n", ""),),
        (
            conformance("test_every_target_can_be_clamped", "custom-log-prob"),
            conformance("test_every_target_can_be_clamped", "selection-g"),
        ),
    ),
    Bug(
        "40",
        "a tempered target has the costs of the other temperature",
        (Edit(CONDITIONING, "return cost if cost == np.inf else self.beta * cost", "return cost"),),
        (conformance("test_every_target_can_be_tempered", "0.5-custom-flip-cost"),),
    ),
    Bug(
        "41",
        "clamped pairs counted twice in the constant",
        (Edit(MRF, "0.5 * float(clamped @ (fields + self._r))", "float(clamped @ fields)"),),
        ("tests/targets/test_mrf.py::test_clamped_pairs_are_counted_once",),
    ),
    Bug(
        "42",
        "conditional mean with the whole cost as its argument",
        (Edit(CONTRACT, "* (1.0 / 16.0)", "* (1.0 / 8.0)"),),
        (law("test_conditional_means", TRIANGLE),),
    ),
    Bug(
        "43",
        "a term of 0/1 variables that counts although another variable of it is 0",
        (Edit("targets/polynomial.py", "if self.zeros[self.term[k]] == own:", "if self.zeros[self.term[k]] >= own:"),),
        (conformance("test_functions_agree", "polynomial-binary"),),
    ),
    Bug(
        "44",
        "hidden units miss a flip",
        (Edit("targets/rbm.py", "  a[j] += change * row[j]\n", "  a[j] += 0.0 * change * row[j]\n"),),
        (conformance("test_functions_agree", "rbm-visible"),),
    ),
    Bug(
        "45",
        "the first variable of a table on its last axis",
        (Edit("targets/factor_graph.py", "1 << (ranks[self._factor_of] - 1 - place)", "1 << place"),),
        ("tests/targets/test_factor_graph.py",),
    ),
    Bug(
        "46",
        "the response is not rotated with the factor",
        (Edit("targets/_cholesky.py", "        u[i] = c * a + s * b\n", "        u[i] = a\n"),),
        (
            conformance("test_functions_agree", "selection-g"),
            conformance("test_functions_agree", "selection-independent"),
        ),
    ),
    Bug(
        "47",
        "a restored chain keeps the caches of the state it was in",
        (Edit(BY_ADDRESS, "        inside=view,\n", ""),),
        (conformance("test_a_worker_can_be_copied_and_restored", "polynomial-spin"),),
    ),
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
    # The general engine.
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
        "P40",
        "expectations at the end of a trajectory that do not see the linear term",
        (Edit("piecewise/samplers/hmc.py", "multiply(view.coupling, x, f)", "multiply(view.coupling, values, f)"),),
        (engine(MOMENTS, "truncated gaussian-hmc"),),
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
        "P45",
        "bins that are forgotten at the end of a call",
        (Edit("piecewise/motion.py", "    fill_bins(recorder, sweep_time)\n", "    recorder.noted[0] = 0\n"),),
        (engine("gibbs::test_bins_hold_all_time"),),
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
        "P70",
        "coefficients in the order of their windows, taken for those of the model",
        (Edit(POTENTIAL, "order, place = spiked[order], np", "order, place = spiked, np"),),
        (engine("visits::test_those_that_may_be_in_the_model_come_first"),),
    ),
    Bug(
        "P71",
        "error bars of the path beside probabilities that are not those of the path",
        (
            Edit(
                "results/paths.py",
                "self._best.path_error(total(time, stretch), reach)",
                "self._path_error(time, reach)",
            ),
        ),
        (engine("gibbs::test_errors_of_intervals_are_those_of_the_best_estimate"),),
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
        "P74",
        "a run of a particle that is read without the expectations that its target has",
        (Edit("storage/unpack.py", "if known and found != ", "if known and found > "),),
        (storage("damage::test_a_run_that_lacks_the_expectations_of_its_target_is_refused"),),
    ),
    Bug(
        "V1",
        "the pull of a variable on itself among that of the others",
        (Edit("piecewise/expectations.py", "(f + view.linear[i] - view.diagonal[i] * x[i])", "(f + view.linear[i])"),),
        (controls("test_a_gaussian_is_known_after_a_few_sweeps"),),
    ),
    Bug(
        "V2",
        "conditional variances of spins without the square",
        (
            Edit(
                "recorders/recorder.py",
                "1.0 - recorder.conditional[i] * recorder.conditional[i]",
                "1.0 - recorder.conditional[i]",
            ),
        ),
        (controls("test_spins_and_variances_are_those_where_means_are_recorded[2]"),),
    ),
    Bug(
        "V3",
        "spins of lanes at which means are recorded are not added up",
        (Edit("tolls/lanes.py", "total.read() + spin.read().to(INT32)", "spin.read().to(INT32)"),),
        (controls("test_spins_and_variances_are_those_where_means_are_recorded[8]"),),
    ),
    Bug(
        "V4",
        "the whole linear part is taken out, also where less of it makes errors smaller",
        (Edit(CONTROLS, 'both.best_share("plain", "other", where)', "1.0"),),
        (controls("test_no_more_is_taken_out_than_makes_errors_smaller"),),
    ),
    Bug(
        "V5",
        "the response of a coefficient that may be zero with the wrong sign",
        (Edit(SPIKES, "cross = share * (1.0 - share) * r", "cross = share * (share - 1.0) * r"),),
        (controls("test_spike_and_slab_gains_and_its_cells_add_up_to_one[gibbs]"),),
    ),
    Bug(
        "V6",
        "what is linear is put in twice instead of being taken out",
        (Edit(CONTROLS, "V * (_rows(sums, pull) - m @ A)", "V * (m @ A - _rows(sums, pull))"),),
        (controls("test_a_gaussian_is_known_after_a_few_sweeps"),),
    ),
    Bug(
        "V7",
        "couplings of the first target are used for all that parameters lead to",
        (Edit("workers/within.py", "return without_couplings(constants)", "return constants"),),
        (controls("test_a_target_that_changes_has_no_controls"),),
    ),
    Bug(
        "V8",
        "steps of half the length in the iteration of Chebyshev",
        (Edit(CONTROLS, "2.0 / half * residual", "1.0 / half * residual"),),
        (controls("test_steps_approach_the_solution_of_sparse_equations"),),
    ),
    Bug(
        "V9",
        "means of the second of two ladders beside spins of the first",
        (
            Edit(
                "recorders/ladder.py",
                "ColdView(cold.spins[1:], cold.means[1:], cold.value), cold.spins[1])",
                "ColdView(cold.spins[1:], cold.means[1:], cold.value), recorder.s)",
            ),
        ),
        (controls("test_both_ladders_of_a_pair_are_recorded"),),
    ),
    Bug(
        "V10",
        "the response of a side of a point as its share of the mass",
        (Edit(SPIKES, "cross * below + (1.0 - share) * density", "cross * below"),),
        (controls("test_spike_and_slab_gains_and_its_cells_add_up_to_one[gibbs]"),),
    ),
    Bug(
        "G1",
        "a bound on standard errors without a margin for their own noise",
        (
            Edit(
                PRECISION,
                "margin = np.sqrt(n / chdtri(n, 1.0 - _RISK))",
                "margin = 1.0",
            ),
        ),
        ("tests/law/test_precision.py::test_a_bound_needs_its_margin",),
    ),
    Bug(
        "G2",
        "a bound counts as reached although chains disagree or never moved",
        (Edit(PRECISION, "bool(needed <= 1.0 and not disagree)", "bool(needed <= 1.0)"),),
        (goals("test_runs_that_cannot_become_precise_end[frozen]"),),
    ),
    Bug(
        "G3",
        "batches that are too short are trusted",
        (
            Edit(
                PRECISION,
                "float(max((worst * margin / goal.until_se) ** 2, too_short))",
                "float((worst * margin / goal.until_se) ** 2)",
            ),
        ),
        ("tests/law/test_precision.py::test_short_batches_are_not_trusted",),
    ),
    Bug(
        "G4",
        "recording never begins anew, however far away the start was",
        (Edit(DRIVER, "            self._record(0)\n            self.goal.look_again(drawn)\n", "            pass\n"),),
        (goals("test_recording_begins_anew_where_the_start_was_far_away"),),
    ),
    Bug(
        "G5",
        "slices of the warm-up go by the time of the whole run",
        (
            Edit(
                DRIVER,
                "_LAST_PART * (self._deadline() - self._seconds)",
                "_LAST_PART * ((self.goal.seconds or math.inf) - self._seconds)",
            ),
        ),
        ("tests/run/test_driver.py::test_slices_of_the_warmup_go_by_its_own_deadline",),
    ),
    Bug(
        "G6",
        "a batch of a function is counted in the next one, too",
        (Edit(TRACKED, "                self.open = np.zeros_like(self.open)\n", ""),),
        (goals("test_tracked_batches_hold_everything"),),
    ),
    Bug(
        "G7",
        "chains that agreed in between are refused as if they never had",
        (Edit("run/goal.py", "            self.disagree_since = 0\n", "            pass\n"),),
        (goals("test_disagreement_must_last_to_end_a_run"),),
    ),
    Bug(
        "G8",
        "times of flips are those since the beginning of their sweep",
        (
            Edit(
                "results/replay.py",
                "np.repeat(np.arange(self.counts.size) * sweep_time, self.counts) + self.time",
                "self.time",
            ),
        ),
        ("tests/run/test_replay.py::test_paths_of_other_runs[options0]",),
    ),
    Bug(
        "S1",
        "a checkpoint is written although its rows could not be",
        (
            Edit(
                CHECKPOINT, "            for column in columns:\n                column.flush()\n", "            pass\n"
            ),
        ),
        (storage("kills::test_full_disk_costs_checkpoints_and_not_the_run[draws]"),),
    ),
    Bug(
        "S2",
        "the newest generation is overwritten, not the older one",
        (Edit(CHECKPOINT, "_STATES[self._state == _STATES[0]]", "_STATES[self._state != _STATES[0]]"),),
        (storage("checkpoint::test_the_last_two_generations_are_kept"),),
    ),
    Bug(
        "S3",
        "all generations have the same number",
        (Edit(CHECKPOINT, 'header["generation"] = self.generation + 1', 'header["generation"] = 1'),),
        (storage("resume::test_many_checkpoints_leave_no_trace"),),
    ),
    Bug(
        "S4",
        "the digests of arrays are not compared",
        (Edit(ARCHIVE, "    if digest.hexdigest() != spec.digest:\n", "    if False:\n"),),
        (storage("damage::test_every_cut_and_any_bit_is_noticed[draws]"),),
    ),
    Bug(
        "S5",
        "two runs write to one folder",
        (Edit(CHECKPOINT, "        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)\n", ""),),
        (storage("checkpoint::test_two_runs_cannot_write_to_one_folder"),),
    ),
    Bug(
        "S6",
        "two runs that continue a third one write to its file",
        (Edit(ROWS, "            if self._tail[0] != self.written:\n", "            if False:\n"),),
        (storage("rows::test_a_column_that_shares_its_file_moves_to_its_own"),),
    ),
    Bug(
        "S7",
        "two runs that continue a third one share the room behind its rows",
        (Edit(ROWS, "if self._buffer.used != self.count or end >", "if end >"),),
        (storage("branches::test_branches_of_a_run_in_memory[{}]"), storage("rows::test_files_hold_what_memory_holds")),
    ),
    Bug(
        "S8",
        "states are restored whatever their numbers are",
        (Edit("workers/loop.py", "                check_bounds(state, name, part)\n", "                pass\n"),),
        (storage("damage::test_arrays_that_do_not_fit_are_refused"),),
    ),
    Bug(
        "S9",
        "caches of a target are restored whatever their numbers are",
        (Edit("_dispatch.py", '        check_bounds(state, f"{name}.{field}", inner)\n', "        pass\n"),),
        (storage("damage::test_forged_caches_of_a_target_are_refused"),),
    ),
    Bug(
        "S10",
        "the checksum of rows in a file is not compared",
        (Edit(ROWS, "        if found != self.checksum:\n", "        if False:\n"),),
        (storage("rows::test_damaged_rows_are_not_opened"),),
    ),
    Bug(
        "S11",
        "the digests of the files of a zarr directory are not compared",
        (Edit(INTERCHANGE, "        if _file_digest(os.path.join(path, name)) != digest:\n", "        if False:\n"),),
        (storage("interchange::test_flipped_bits_in_coordinates_traces_and_metadata_are_noticed"),),
    ),
    Bug(
        "S12",
        "a checkpoint that another run has gone on with is written to",
        (Edit(CHECKPOINT, "        if found.generation != place.generation:\n", "        if False:\n"),),
        (storage("branches::test_only_one_branch_goes_on_with_a_checkpoint[draws]"),),
    ),
    # The driver and its pools.
    Bug(
        "D1",
        "a round is handed over before all workers have finished it",
        (
            Edit(
                POOL,
                "all(worker in self._rounds[0].slices for worker in active)",
                "any(worker in self._rounds[0].slices for worker in active)",
            ),
            Edit(
                POOL,
                "{worker: done.slices[worker] for worker in active}",
                "{worker: done.slices[worker] for worker in active if worker in done.slices}",
            ),
        ),
        ("tests/run/test_pool.py::test_rounds_are_the_same_sweeps_of_all_workers",),
    ),
    Bug(
        "D2",
        "what is kept differs between the workers of a round",
        (
            Edit(
                POOL,
                "Order(worker, self._rounds[k].end, self._rounds[k].keep)",
                "Order(worker, self._rounds[k].end, keep())",
            ),
        ),
        ("tests/run/test_pool.py::test_what_is_kept_is_the_same_for_all_workers_of_a_round",),
    ),
    Bug(
        "D3",
        "a worker is ahead of the others without a bound",
        (Edit(POOL, "_MOST_ROUNDS = 2\n", "_MOST_ROUNDS = 50\n"),),
        ("tests/run/test_pool.py::test_workers_are_ahead_by_one_round_at_most",),
    ),
    Bug(
        "D4",
        "slow workers do not go back on an interrupt",
        (Edit(POOL, "            worker.restore(self._states[worker][level])\n", "            pass\n"),),
        ("tests/run/test_pool.py::test_slow_workers_go_back_on_an_interrupt",),
    ),
    Bug(
        "D5",
        "a run is extended to a number of draws, not by it",
        (Edit(DRIVER, "data.drawn + goal.draws", "max(goal.draws, data.drawn)"),),
        ("tests/run/test_sample.py::test_extensions_of_a_run_are_independent",),
    ),
    Bug(
        "D6",
        "chains whose target failed keep the records of another one",
        (
            Edit(
                DRIVER,
                "chains = [k for worker in left for k in self._places(worker)]",
                "chains = list(range(len(left)))",
            ),
        ),
        ("tests/run/test_driver.py::test_the_records_of_a_chain_that_failed_are_dropped",),
    ),
    Bug(
        "I1",
        "entries of a series are taken by position although its labels are in another order",
        (Edit("_labels.py", "    return [place[label] for label in first.labels]\n", "    return None\n"),),
        ("tests/test_labels.py::test_states_are_matched_to_the_sites",),
    ),
    Bug(
        "I2",
        "attributes of a target can be assigned",
        (Edit("_samplable.py", 'if "_is_closed" in vars(self) and not', "if False and not"),),
        ("tests/test_immutable.py::test_attributes_cannot_be_assigned",),
    ),
    Bug(
        "I3",
        "a target that has travelled has arrays that can be written to",
        (Edit("_samplable.py", "        close(self)  # arrays", "        self._is_closed = True  # arrays"),),
        ("tests/test_immutable.py::test_arrays_are_read_only",),
    ),
    Bug(
        "I4",
        "what was seen after the last batch does not count",
        (
            Edit(
                "results/moments.py",
                "np.abs(self.mean(quantity, per_step) - typical) + far",
                "0.0 * np.abs(self.mean(quantity, per_step) - typical) + far",
            ),
        ),
        ("tests/results/test_path_errors.py::test_what_was_seen_after_the_last_batch_counts",),
    ),
    Bug(
        "I5",
        "chains that are frozen at different values are no reason to worry",
        (Edit("results/spins.py", " | (frozen & (value != value[:1]).any(axis=0))", ""),),
        ("tests/results/test_flips.py::test_chains_that_hold_on_to_different_values_are_named",),
    ),
    Bug(
        "I6",
        "draws that fit neither into memory nor on the disk are begun",
        (Edit("run/estimate.py", "        return self.rows <= max", "        return True or self.rows <= max"),),
        ("tests/run/test_estimate.py::test_draws_are_refused_where_neither_memory_nor_disk_holds_them",),
    ),
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
        "R17",
        "the scale adapts to what is recorded",
        (
            Edit(
                "workers/paths.py",
                "worker._adapting[:] = max(worker._adapting[0] - 1, 0)",
                "worker._adapting[:] = max(worker._adapting[0] - 1, 1)",
            ),
        ),
        (engine("density::test_the_scale_stays_while_results_are_recorded"),),
    ),
    Bug(
        "R18",
        "a checkpoint in the warm-up forgets what the scale is found from",
        (Edit("workers/paths.py", '            "moments": self._moments,\n', ""),),
        (storage("resume::test_resumed_run_has_the_bytes_of_one_that_was_not_interrupted[density]"),),
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
        "R24",
        "the last lengths come from the last few sweeps of the warm-up",
        (Edit("workers/paths.py", "    known &= _total_moments(workers)[0] >= _LEAST_SEEN * whole\n", ""),),
        (engine("density::test_lengths_do_not_come_from_a_few_sweeps"),),
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
    Bug(
        "F1",
        "all lanes decide by the random number of the first",
        (Edit(LANE_TOLL, _PAYING, f"{_PAYING}    uniform[:] = uniform[0]\n"),),
        (twin("gibbs-dense-small"),),
    ),
    Bug(
        "F2",
        "costs forget the changes of fields that were put off",
        (
            Edit(
                FIELD_LANES,
                "view.who, view.count[0], view.change)\n    _cost",
                "view.who, 0, view.change)\n    _cost",
            ),
        ),
        ("tests/targets/test_lanes.py::test_costs_are_differences_of_log_prob[dense 17-8]",),
    ),
    Bug(
        "F3",
        "lanes at any temperature pay as at the first one",
        (Edit(LANE_TOLL, _PAYING, f"{_PAYING}    attempt.share[0] = attempt.share[0, 0]\n"),),
        (flock("test_lanes_have_temperatures_of_their_own[gibbs-sparse]"),),
    ),
    Bug(
        "F4",
        "heat bath of lanes without its 1",
        (Edit(LANE_TOLL, "scale = bath.read() + rough", "scale = rough"),),
        (twin("gibbs-dense-small"),),
    ),
    Bug(
        "F5",
        "flips of lanes enter the path with the wrong sign",
        (Edit(LANE_RECORDER, "path[k] -= change[k] * t\n", "path[k] += change[k] * t\n"),),
        (twin("gibbs-dense-small"),),
    ),
    Bug(
        "F6",
        "what was put off is not settled at the end of a sweep",
        (Edit(FLOCK_KERNEL, "        settle_lanes(target)\n        shift", "        shift"),),
        (flock("test_a_flock_goes_on_in_another_worker[dense]"),),
    ),
    Bug(
        "F7",
        "both terms of a pair count in full",
        (Edit(LANE_RECORDER, "0.5 * spin[k] * mean[k]", "spin[k] * mean[k]"),),
        (twin("gibbs-sparse-small"),),
    ),
    Bug(
        "F8",
        "random numbers that are left over are used in the next sweep",
        (
            Edit(FLOCK_KERNEL, "        hits = 0\n        drawn = 0\n", "        hits = 0\n"),
            Edit(
                FLOCK_KERNEL,
                "    events, due = recorder.open_events, recorder.due\n",
                "    events, due = recorder.open_events, recorder.due\n    drawn = 0\n",
            ),
        ),
        (twin("gibbs-dense-small"),),
    ),
    Bug(
        "F10",
        "flips of idle lanes are counted",
        (Edit(LANE_TOLL, "if chains == spin.size or total == 0:", "if chains >= 0:"),),
        (flock("test_idle_lanes_are_never_seen[11]"),),
    ),
    Bug(
        "F11",
        "a shared clock is judged once for each of its chains",
        (
            Edit(
                "results/diagnostics.py",
                "clocks = [flock[0] for flock in flocks_of(",
                "clocks = [k for flock in flocks_of(",
            ),
            Edit("results/diagnostics.py", "run._data.setup.lanes)]\n", "run._data.setup.lanes) for k in flock]\n"),
        ),
        (lanes("test_rates_of_shared_clocks_are_judged_by_clocks[bps-gaussian]"),),
    ),
    Bug(
        "F12",
        "the number of lanes is no part of a state",
        (
            Edit(FLOCK, '            "lanes": self.count,\n', ""),
            Edit(FLOCK, '        check_range("lanes", state["lanes"], 1, self.s.shape[1])\n', ""),
        ),
        (flock("test_a_flock_goes_on_in_another_worker[dense]"),),
    ),
    Bug(
        "F13",
        "draws of lanes are stored in another order",
        (Edit(LANE_RECORDER, "row[k] = s[i, k]", "row[k] = s[i, row.size - 1 - k]"),),
        (flock("test_rows_are_those_of_the_states[11]"),),
    ),
    Bug(
        "F14",
        "the field of a lane changes with the spins of its neighbour",
        (Edit(FIELD_LANES, "        row[k] = change[k]\n", "        row[k] = change[k ^ 1]\n"),),
        ("tests/targets/test_lanes.py::test_costs_are_differences_of_log_prob[dense 17-8]",),
    ),
    Bug(
        "F15",
        "a site with many neighbours forgets the last of them",
        (Edit(FIELD_LANES, "    while n + 4 < end:\n", "    while n + 5 < end:\n"),),
        ("tests/targets/test_lanes.py::test_costs_are_differences_of_log_prob[sparse degrees 0 to 9-8]",),
    ),
    Bug(
        "F16",
        "all chains of a flock have the same random numbers",
        (Edit(FLOCK, "children[lane], streams[lane]", "children[lane], streams[0]"),),
        (flock("test_lanes_are_uncorrelated[bps-gaussian-dense]"),),
    ),
    Bug(
        "F17",
        "batches of a single site share memory with the open one",
        (Edit(LANE_RECORDER, "array[:, :lanes].T.copy()", "np.ascontiguousarray(array[:, :lanes].T)"),),
        (flock("test_one_site[gibbs]"),),
    ),
    Bug(
        "F18",
        "conditional means of lanes leave out the fields of q",
        (
            Edit(
                LANE_TOLL,
                "_add_means(total, spin, cost, weight, rest, 2.0 * reference)",
                "_add_means(total, spin, cost, weight, rest)",
            ),
        ),
        (flock("test_lanes_have_temperatures_of_their_own[gibbs-sparse]"),),
    ),
    Bug(
        "F19",
        "seconds are those of a flock, not of a chain",
        (
            Edit(
                DRIVER,
                "sum(worker.cpu_seconds for worker in self.workers) / self._chains",
                "sum(worker.cpu_seconds for worker in self.workers) / len(self.workers)",
            ),
        ),
        (lanes("test_seconds_are_those_of_a_chain"),),
    ),
    Bug(
        "F20",
        "costs beyond the largest exponent come back from the other end",
        (Edit(VECTOR, "_LARGEST = 700.0\n", "_LARGEST = 1e6\n"),),
        ("tests/test_vector.py::test_exp_ends_at_its_largest_numbers",),
    ),
    Bug(
        "F21",
        "random numbers of lanes lose their lower half",
        (Edit(VECTOR, "_UNUSED = np.uint64(12)\n", "_UNUSED = np.uint64(38)\n"),),
        ("tests/test_vector.py::test_numbers_are_those_of_the_generator_of_each_lane[8]",),
    ),
    Bug(
        "F22",
        "lanes pay a tenth too little",
        (Edit(LANE_TOLL, "exponent = weight.read()", "exponent = 0.9 * weight.read()"),),
        (flock("test_lanes_keep_the_law[sparse-gibbs]"),),
    ),
    Bug(
        "F23",
        "the rest of a random number is not drawn where it decides",
        (Edit(LANE_TOLL, "+ STEP * rest_of_number(toll.rng, k, uniform[k])", "+ 0.5 * STEP"),),
        ("tests/tolls/test_lanes.py::test_doubts_are_removed_by_the_rest_of_the_number[0.3-0.0]",),
    ),
    Bug(
        "F24",
        "lanes pass although the rest of their numbers could tell otherwise",
        (Edit(LANE_TOLL, "most + STEP * scale < surely", "most < surely"),),
        ("tests/tolls/test_lanes.py::test_what_is_certain_is_right_and_the_rest_is_drawn[1-0.0]",),
    ),
    Bug(
        "F30",
        "costs are taken for exact where single precision has them wrong",
        (Edit(LANE_TOLL, "error = _ROUNDED + cost_error(target, i)", "error = _ROUNDED"),),
        ("tests/tolls/test_lanes.py::test_costs_that_single_precision_has_wrong_are_seen_through[0.0-0.001-0.0]",),
    ),
    Bug(
        "F31",
        "fields of q are taken for exact where single precision rounds them",
        (Edit(LANE_TOLL, " + _ROUNDED_BY_FIELD * abs(reference)", ""),),
        ("tests/tolls/test_lanes.py::test_costs_that_single_precision_has_wrong_are_seen_through[-400.0-1e-06-0.0]",),
    ),
    Bug(
        "F32",
        "the error of costs in single precision does not grow with the number of couplings",
        (Edit(FIELD_LANES, "(6.0 + degree / 4.0) * _ROUNDING * most_cost", "_ROUNDING * np.abs(r)"),),
        ("tests/targets/test_lanes.py::test_single_precision_is_as_exact_as_it_says[hub-1.0]",),
    ),
    Bug(
        "F34",
        "an error of costs counts on one side alone",
        (Edit(LANE_TOLL, "1.0 + 2.0 * error if error < _USELESS else np.inf", "1.0 + _ROUNDED"),),
        ("tests/tolls/test_lanes.py::test_costs_that_single_precision_has_wrong_are_seen_through[0.0-0.001-0.0]",),
    ),
    Bug(
        "F35",
        "large errors of costs are taken for small ones",
        (Edit(LANE_TOLL, "error if error < _USELESS else np.inf", "error"),),
        ("tests/tolls/test_lanes.py::test_costs_that_single_precision_has_wrong_are_seen_through[0.0-10.0-0.0]",),
    ),
    Bug(
        "F36",
        "costs beyond the range of single precision are taken for known",
        (Edit(FIELD_LANES, "0.0 if most_cost.max() < _IN_RANGE else np.inf", "0.0"),),
        ("tests/targets/test_lanes.py::test_single_precision_is_as_exact_as_it_says[dense 10-1e+39]",),
    ),
    Bug(
        "F33",
        "lanes that trade temperatures decide at their old ones",
        (Edit(LADDER_TOLL, "    share_out(toll)\n", ""),),
        (ladder("test_the_product_law_stays[dense-bps-gaussian-uniform]"),),
    ),
    Bug(
        "F25",
        "flips that were in doubt are not counted",
        (Edit(LANE_TOLL, "                attempt.flips[k] += 1\n", ""),),
        ("tests/tolls/test_lanes.py::test_doubts_are_removed_by_the_rest_of_the_number[0.3-0.0]",),
    ),
    Bug(
        "F26",
        "a site whose couplings are equal forgets its last neighbour",
        (Edit(FIELD_LANES, "view.bits, n, view.indptr[i + 1]))", "view.bits, n, view.indptr[i + 1] - 1))"),),
        ("tests/targets/test_lanes.py::test_costs_are_differences_of_log_prob[sparse equal couplings-8]",),
    ),
    Bug(
        "F29",
        "couplings that are equal but for their signs lose these",
        (Edit(FIELD_LANES, "lambda row, bits: (row.read() ^ bits) - bits", "lambda row, bits: row.read()"),),
        ("tests/targets/test_lanes.py::test_costs_are_differences_of_log_prob[sparse equal couplings-8]",),
    ),
    Bug(
        "F37",
        "a byte counts more flips than it can",
        (Edit(LANE_TOLL, "MOST_FLIPS = 127", "MOST_FLIPS = 200"),),
        (flock("test_more_flips_than_a_byte_can_count"),),
    ),
    Bug(
        "F38",
        "powers of 2 are rougher than the lanes in doubt are found by",
        (Edit("_vector.py", "_polynomial(4)))", "_polynomial(3) + (0.0,)))"),),
        ("tests/test_vector.py::test_rough_power",),
    ),
    Bug(
        "F39",
        "products of spins are added up as bytes beyond what these hold",
        (Edit(LANE_READING, "_BLOCK = 64", "_BLOCK = 200"),),
        (reading("sparse lattice-8-which0"),),
    ),
    Bug(
        "F40",
        "pairs of neighbours count twice in log p of a scan",
        (Edit(LANE_READING, "own & (indices > rows)", "own & (indices != rows)"),),
        (reading("sparse equal couplings-8-which0"),),
    ),
    Bug(
        "F41",
        "means of a scan take all couplings for positive",
        (Edit(LANE_READING, "np.where(data[own] < 0.0, 1 | 1 << _BITS, 0)", "0"),),
        (reading("sparse equal couplings-8-which0"),),
    ),
    Bug(
        "F42",
        "means of both ladders are those of the first",
        (Edit(LANE_READING, "reading.each, _BITS * n)", "reading.each, 0)"),),
        (reading("sparse lattice-56-which1"),),
    ),
    Bug(
        "F43",
        "sites whose couplings differ are not read",
        (Edit(FIELD_LANES, "        if view.size[i] > 0.0:\n            continue\n", "        continue\n"),),
        (reading("sparse degrees 0 to 9-8-which0"),),
    ),
    Bug(
        "F44",
        "32 lanes that are worked on together read their neighbours in the first ones",
        (Edit("_lane_loop.py", "self.builder.add(start, self.lane)", _FIRST_LANES),),
        ("tests/targets/test_lanes.py::test_costs_are_differences_of_log_prob[sparse equal couplings-136]",),
    ),
    Bug(
        "F45",
        "64 lanes that are worked on together begin to add up at 1",
        (Edit("_lane_loop.py", "kind([0] * self.count)", "kind([self.count // 64] * self.count)"),),
        (reading("sparse lattice-136-which2"),),
    ),
    Bug(
        "F27",
        "spins of few sites, from which fields are added up, stay what they were",
        (Edit(FIELD_LANES, "        _add(view.kept[i], 1.0, change)\n", "        pass\n"),),
        (twin("gibbs-dense-small"),),
    ),
    Bug(
        "F28",
        "lanes beyond the last whole block are worked on with all others again",
        (Edit("_lane_loop.py", "        done = end\n", ""),),
        ("tests/test_vector.py::test_loops_visit_each_lane_once[24]",),
    ),
    Bug(
        "L1",
        "sign of a swap",
        (Edit(LADDER_TOLL, "(next_b.read() - b.read())", "(b.read() - next_b.read())"),),
        (ladder("test_the_product_law_stays[dense-bps-gaussian-uniform]"),),
    ),
    Bug(
        "L2",
        "a swap forgets the temperature of one of its lanes",
        (Edit(LADDER_TOLL, "        toll.weight[n], toll", "        toll.weight[n * (k % 2)], toll"),),
        (ladder("test_the_product_law_stays[dense-bps-gaussian-uniform]"),),
    ),
    Bug(
        "L3",
        "all pairs swap after every scan, and not in turn",
        (Edit(LADDER_TOLL, "swaps.turn[0] % 2, top", "0, top"),),
        (ladder("test_swaps_that_are_always_accepted_give_the_round_trips_of_the_closed_form"),),
    ),
    Bug(
        "L4",
        "swaps decide by the values after the scan before",
        (Edit(LADDER_TOLL, "_look_at(swaps.b, toll.log_prob, ", "_look_at(swaps.b, before, "),),
        ("tests/workers/test_ladder_pairs.py::test_both_ladders_keep_their_law[couplings]",),
    ),
    Bug(
        "L5",
        "the reference is not drawn anew",
        (Edit(LADDER_TOLL, "toll.bath[n] = toll.rule if k > 0 else HEAT_BATH", "toll.bath[n] = toll.rule"),),
        (ladder("test_rung_zero_forgets"),),
    ),
    Bug(
        "L6",
        "V of rungs leaves out the fields of the reference",
        (Edit(LADDER_TOLL, "+= fields[i] * s[i, k]", "+= 0.0 * fields[i] * s[i, k]"),),
        (ladder("test_the_product_law_stays[dense-metropolis-reference2]"),),
    ),
    Bug(
        "L7",
        "the forward mean of log Z is that of the upper rung",
        (Edit(LADDER_RECORDER, "step * low.read() - shift", "step * high.read() - shift"),),
        (ladder("test_swaps_and_sums_are_those_of_enumeration[dense]"),),
    ),
    Bug(
        "L8",
        "draws follow a lane, not the rung b = 1",
        (Edit(LADDER_RECORDER, "copy_lane(s, toll.swaps.lane[-1], now)", "copy_lane(s, s.shape[1] - 1, now)"),),
        (ladder("test_the_chain_is_the_lane_at_one[sparse]"),),
    ),
    Bug(
        "L9",
        "the path misses the flips of a swap",
        (
            Edit(
                LADDER_RECORDER,
                "    recorder.chain.open_events[FLIPS] += record_flips(recorder.chain, recorder.s, now, 0.0)\n",
                "    for i in range(now.size):\n        recorder.s[i] = now[i]\n",
            ),
        ),
        (ladder("test_the_chain_is_the_lane_at_one[dense]"),),
    ),
    Bug(
        "L10",
        "the reverse estimate is the forward one",
        (Edit(TEMPERED, "reverse = np.sum(self._offset - np.log(sums[DOWN, :-1] / scans))", "reverse = forward"),),
        (tempered("test_the_bounds_are_two_estimates"),),
    ),
    Bug(
        "L11",
        "errors of log Z add up those of pairs as if they were independent",
        (Edit("results/moments.py", "np.sqrt((n - 1) * np.var(", "np.sqrt((n - 1) / 4 * np.var("),),
        (tempered("test_log_z_is_covered"),),
    ),
    Bug(
        "L12",
        "a lane that leaves the reference keeps the cache of other spins",
        (Edit(ADDRESS_LANES, "        if is_parked(view, n):\n            init(lane, own)\n", ""),),
        (ladder("test_the_product_law_stays[cached-bps-gaussian-uniform]"),),
    ),
    Bug(
        "L13",
        "functions see the spins of another lane",
        (Edit(ADDRESS_LANES, "view.spins[k], i)\n            out", "view.spins[0], i)\n            out"),),
        (ladder("test_the_product_law_stays[walls-gibbs-random-reference4]"),),
    ),
    Bug(
        "L14",
        "offsets of log Z go on changing while it is recorded",
        (Edit(LADDER, "self.seen += self.sums\n", "self.seen += self.sums\n        self.offset[:-1] += 0.01\n"),),
        (tempered("test_log_z_is_covered"),),
    ),
    Bug(
        "L15",
        "the ladder of a pilot is not evened",
        (Edit(PILOT, "PchipInterpolator(reached, b)(", "(lambda x: x / x[-1])("),),
        (tempered("test_the_pilot_finds_rungs_for_the_barrier"),),
    ),
    Bug(
        "L16",
        "an odd lane of a state counts twice",
        (Edit(LADDER, ".size != self.toll.swaps.lane.size:", ".size > self.toll.swaps.lane.size:"),),
        (ladder("test_forged_ladders_are_refused"),),
    ),
    Bug(
        "L17",
        "auto does not see chains that disagree",
        (Edit(AUTO, "found = _apart(run)", "found = None"),),
        ("tests/samplers/test_auto.py::test_stuck_targets_are_tempered[glass]",),
    ),
    Bug(
        "L18",
        "auto takes a scan in turn on a target with ties",
        (Edit(AUTO, "return True\n    return False", "return False\n    return False"),),
        ("tests/samplers/test_auto.py::test_ties_keep_metropolis_out",),
    ),
    Bug(
        "M1",
        "means of BPS are recorded at the ends of sweeps",
        (Edit(RECORDER, "recorder.due[0] = recorder.every", "recorder.due[0] = SWEEP_END"),),
        ("tests/workers/test_slices.py::test_path_averages_equal_those_of_the_event_list[bps-gaussian]",),
    ),
    Bug(
        "M2",
        "means of lanes are recorded one attempt late",
        (Edit(LANE_RECORDER, "recorder.due[0] = recorder.every", "recorder.due[0] = recorder.every + 1"),),
        (twin("bps-gaussian-dense-small"),),
    ),
    Bug(
        "M3",
        "HMC, whose hits depend on the spins, records means after every d of them",
        (Edit("clocks/parabolic.py", "    allocate=_allocate,\n", "    allocate=_allocate,\n    by_attempts=True,\n"),),
        (law("test_conditional_means", HMC_EXPONENTIAL_TRIANGLE),),
    ),
    Bug(
        "L22",
        "states that turn to and fro are taken to forget at once",
        (Edit("results/overlap.py", "1.0 - 2.0 * (np.arange(n) % 2)", "1.0 - 0.0 * (np.arange(n) % 2)"),),
        ("tests/plots/test_runs.py::test_overlap_within_a_chain_is_of_draws_that_are_far_apart[2000-True]",),
    ),
    Bug(
        "L19",
        "batches of a ladder are as short as those of a chain",
        (Edit(TEMPERED, "_TRIPS_PER_BATCH = 2.0", "_TRIPS_PER_BATCH = 0.0"),),
        (tempered("test_batches_are_as_long_as_round_trips"),),
    ),
    Bug(
        "L20",
        "a step of log Z beyond reach is taken from the warm-up",
        (Edit(TEMPERED, "_FARTHEST = 100.0", "_FARTHEST = 1e9"),),
        (tempered("test_log_z_of_a_wall_is_unknown"),),
    ),
    Bug(
        "L21",
        "a fitted reference has the fields of the opposite spins",
        (Edit(PILOT, "fields = -np.arctanh(mean)", "fields = np.arctanh(mean)"),),
        (tempered("test_a_fitted_reference_lowers_the_barrier"),),
    ),
    Bug(
        "L23",
        "a cluster misses the first neighbour of a site",
        (Edit(LANES_CONTRACT, "= indices\n", "= indices\n    found[begin[:-1][degree > 0]] = d\n"),),
        ("tests/workers/test_ladder_pairs.py::test_a_cluster_is_a_component_of_the_sites_that_differ",),
    ),
    Bug(
        "L24",
        "a cluster is a single site",
        (
            Edit(
                LANES_CONTRACT,
                "    while head < tail:\n",
                "    while head > tail:\n",
            ),
        ),
        ("tests/workers/test_ladder_pairs.py::test_both_ladders_keep_their_law[couplings]",),
    ),
    Bug(
        "L25",
        "swaps look at energies from before an exchange of clusters",
        (
            Edit(
                LADDER_TOLL,
                "        before[k] = toll.log_prob[k]\n",
                "        before[k] = toll.log_prob[k]\n    _trade_clusters(swaps, target, s)\n",
            ),
        ),
        ("tests/workers/test_ladder_pairs.py::test_both_ladders_keep_their_law[couplings]",),
    ),
    Bug(
        "L31",
        "functions keep their caches when a cluster is exchanged",
        (Edit(ADDRESS_LANES, "        init(lane_of(view, k), view.spins[k])\n        report", "        report"),),
        ("tests/workers/test_ladder_pairs.py::test_caches_are_those_of_the_spins_after_an_exchange[terms]",),
    ),
    Bug(
        "L32",
        "functions do not see the spins that a cluster exchanged",
        (Edit(ADDRESS_LANES, "            view.spins[k, queue[n]] = s[queue[n], k]\n", "            pass\n"),),
        ("tests/workers/test_ladder_pairs.py::test_caches_are_those_of_the_spins_after_an_exchange[terms]",),
    ),
    Bug(
        "L26",
        "means of the other ladder go with the spins of the chain",
        (
            Edit(
                LADDER_RECORDER,
                "ColdView(cold.spins[1:], cold.means[1:], cold.value), cold.spins[1])",
                "ColdView(cold.spins[1:], cold.means[1:], cold.value), recorder.s)",
            ),
        ),
        ("tests/workers/test_ladder_pairs.py::test_means_are_those_of_both_ladders",),
    ),
    Bug(
        "L27",
        "sums of log Z count two ladders as one",
        (
            Edit(
                LADDER_RECORDER,
                "_add_ladder(recorder, swaps, first, rungs / size)",
                "_add_ladder(recorder, swaps, first, 1.0)",
            ),
        ),
        ("tests/workers/test_ladder_pairs.py::test_a_run_of_pairs_agrees_with_enumeration[couplings]",),
    ),
    Bug(
        "C1",
        "bonds are drawn with probability 1 - exp(-J)",
        (Edit(GAUGE, "p = -np.expm1(-2.0 * J)", "p = -np.expm1(-1.0 * J)"),),
        (clusters("test_law_is_kept", "gauge in fields-swendsen-wang"),),
    ),
    Bug(
        "C2a",
        "fields hold the spins that are against them",
        (Edit(GAUGE, "pull=np.sign(field)", "pull=-np.sign(field)"),),
        (clusters("test_law_is_kept", "gauge in fields-swendsen-wang"),),
    ),
    Bug(
        "C2b",
        "a field holds the spin in the gauge",
        (Edit(CLUSTERS, "== view.gauge[i] * view.pull[i]:", "== view.pull[i]:"),),
        (clusters("test_law_is_kept", "gauge in fields-wolff"),),
    ),
    Bug(
        "C3a",
        "a cluster is turned over with probability 3/4",
        (
            Edit(
                CLUSTERS,
                "np.int8(1 - 2 * np.int64(coins & _ONE))",
                "np.int8(1 - 2 * np.int64((coins | coins >> _ONE) & _ONE))",
            ),
        ),
        (clusters("test_states_are_those_of_the_literal_twin", "gauge in fields-swendsen-wang"),),
    ),
    Bug(
        "C3b",
        "the cluster that fields hold is turned over as well",
        (Edit(CLUSTERS, "            turn = np.int8(1)\n", "            turn = np.int8(-1)\n"),),
        (clusters("test_law_is_kept", "gauge in fields-swendsen-wang"),),
    ),
    Bug(
        "C3c",
        "a held cluster of Wolff turns",
        (Edit(CLUSTERS, "turned = sigma if held else -sigma", "turned = -sigma"),),
        (clusters("test_law_is_kept", "gauge in fields-wolff"),),
    ),
    Bug(
        "C4",
        "sites of a cluster keep the spins of before it for the next one",
        (Edit(CLUSTERS, "                growth.free[i] = turned\n", "                growth.free[i] = sigma\n"),),
        (clusters("test_states_are_those_of_the_literal_twin", "gauge in fields-wolff"),),
    ),
    Bug(
        "C5",
        "log p counts each pair of different couplings, but for the last few",
        (Edit(GAUGE, "range(n - n % 4, n)", "range(n, n)"),),
        (clusters("test_estimates_of_runs", "gauge in fields-swendsen-wang"),),
    ),
    Bug(
        "C6a",
        "means of clusters have the wrong sign",
        (Edit(CLUSTER_SUMS, "sums.mean[i] += s[i]", "sums.mean[i] -= s[i]"),),
        (clusters("test_law_is_kept", "gauge in fields-swendsen-wang"),),
    ),
    Bug(
        "C6b",
        "pairs within a cluster count as equal spins, whatever the gauge",
        (Edit(CLUSTER_SUMS, "sums.pair_mean[i, j] += s[i] * s[j]", "sums.pair_mean[i, j] += 1.0"),),
        (clusters("test_law_is_kept", "gauge in fields-swendsen-wang"),),
    ),
    Bug(
        "C6c",
        "moments are those of the magnetisation in the gauge",
        (Edit(CLUSTERS, "if not view.is_plain:", "if view.is_plain:"),),
        (clusters("test_law_is_kept", "gauge in fields-swendsen-wang"),),
    ),
    Bug(
        "C6d",
        "fourth moments without the term of single clusters",
        (Edit(CLUSTER_SUMS, " - 2.0 * fourths", ""),),
        (clusters("test_law_is_kept", "strong in fields-swendsen-wang"),),
    ),
    Bug(
        "C7",
        "every site counts as tied to a field, or none does",
        (Edit(GAUGE, "np.asarray(lit[component])", "np.full(d, not lit.all())"),),
        (clusters("test_zeros_are_no_couplings"),),
    ),
    Bug(
        "C8",
        "no site is flipped by the gauge",
        (Edit(GAUGE, "[root][component], 1, -1)", "[root][component], 1, 1)"),),
        (clusters("test_gauge_makes_all_couplings_ferromagnetic", "7"),),
    ),
    Bug(
        "C9",
        "bits that are left over are used in the next sweep, so that slices make a difference",
        (
            Edit(
                CLUSTERS,
                "at = np.uint64(growth.bits.size)\n        squares",
                "at = _NONE\n        squares",
            ),
        ),
        (clusters("test_states_are_those_of_the_literal_twin", "gauge in fields-wolff"),),
    ),
    Bug(
        "C10",
        "a block of a scheme keeps the gauge of the target before",
        (Edit(GAUGE, "* like.gauge[M.indices] < 0.0", "* like.gauge[M.indices] < np.inf"),),
        (clusters("test_workers_go_on_with_another_target", "swendsen-wang"),),
    ),
    Bug(
        "C11",
        "clusters are never tried by 'auto'",
        (Edit("samplers/auto.py", "if edges is None:", "if edges != -1:"),),
        ("tests/samplers/test_auto.py::test_magnets_are_sampled_by_clusters[two modes]",),
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
        "W2b",
        "a variable is no partner of its own partners",
        (Edit("targets/_regression.py", "one_way.maximum(one_way.T)", "one_way"),),
        (swaps("test_candidates_of_many_variables_need_no_matrix"),),
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
        "W6",
        "pair means of sites of one group are products of joint conditional means",
        (Edit(RECORDER, "    pairs_within(recorder.pairs, recorder.group, s, recorder.conditional)\n", ""),),
        (swaps("test_law_from_exact_starts[12000-0.08-colouring]"),),
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
    Bug(
        "W9",
        "exact passes over the allowed states whose last site of a group is up",
        (Edit("_allowed.py", "1 if k <= m + behind else -1", "1 if k < m + behind else -1"),),
        (constraints("test_exact_sums_over_allowed_states[sum]"),),
    ),
    Bug(
        "W10",
        "the reference of a restricted ladder is not drawn anew",
        (Edit(SWAP_LADDER, "        _draw_reference(toll, target, s, reference)\n", ""),),
        (swap_ladder("test_the_reference_is_drawn_anew_in_each_scan[sum]"),),
    ),
    Bug(
        "W11",
        "log Z of a restricted target counts all states as those of its reference",
        (Edit("workers/ladder.py", "new_state(swap_seed), log_size, ", "new_state(swap_seed), None, "),),
        (swap_ladder("test_log_z_is_that_of_the_allowed_states"),),
    ),
    Bug(
        "W12",
        "lanes of a ladder swap at the temperature of the target",
        (Edit(SWAP_LADDER, "* exp(toll.weight[lane] * cost", "* exp(cost"),),
        (swap_ladder("test_the_product_law_stays[sum]"),),
    ),
    Bug(
        "N1",
        "coordinates leave points at a rate that does not depend on their speed",
        (Edit(POINTS, "* mean / abs(speed) if", "* mean if"),),
        (engine("law::test_rates", "points"), engine("points::test_rests_are_exponential", "2")),
    ),
    Bug(
        "N2",
        "the rate of leaving a point has its mass upside down",
        (Edit(POINTS, "exp(view.way_out[row])", "exp(-view.way_out[row])"),),
        (engine("law::test_final_state", "spike-slab"),),
    ),
    Bug(
        "N3",
        "velocities of coordinates at points are reflected",
        (
            Edit(
                FLIGHT,
                "    n, along, square, before, after = moving(flight.points, y.size)",
                "    n = y.size\n    n, along, square, before, after = n",
            ),
            Edit(FLIGHT, "g[i] = flight.slope[i] * flight.F[i]", "g[i] = max(flight.slope[i], 0.7) * flight.F[i]"),
        ),
        (engine("law::test_rates", "spike-slab"),),
    ),
    Bug(
        "N4",
        "the time at a point at which a sweep ends is not counted",
        (
            Edit(
                FLIGHT,
                "    leave_cells(recorder, flight.row)\n",
                "    for k in range(flight.points.number[0], flight.points.order.size):\n"
                "        recorder.entered_cell[flight.points.order[k]] = sweep_time\n"
                "    leave_cells(recorder, flight.row)\n",
            ),
        ),
        (engine("law::test_time_in_cells", "points"),),
    ),
    Bug(
        "N5",
        "coordinates leave points to the side that they came from",
        (
            Edit(
                FLIGHT,
                "            events[FLIPS] += _meet_wall(",
                "            if place < 0:\n                flight.v[i] = -flight.v[i]\n"
                "            events[FLIPS] += _meet_wall(",
            ),
        ),
        (engine("points::test_coordinates_leave_in_the_direction_of_their_velocity"),),
    ),
    Bug(
        "N6",
        "coordinates never turn at a point between unequal densities",
        (Edit(FLIGHT, "jump -= view.way_out[row]", "jump = 0.0"),),
        (engine("law::test_final_state", "points"),),
    ),
    Bug(
        "N7",
        "the rate of leaving a point is that of the lower density beside it",
        (Edit(POINTS, "np.fmin(up, down)", "np.fmax(up, down)"),),
        (engine("law::test_final_state", "points"),),
    ),
    Bug(
        "N8",
        "coordinates at points do not notice that their speeds have changed",
        (Edit(FLIGHT, "    change_speeds(flight.points, view, flight.row, old, v, now, flight.rng)\n", ""),),
        (engine(SAME_EVENTS, "points"),),
    ),
    Bug(
        "N9",
        "the next refreshment does not notice that more or fewer coordinates move",
        (Edit(FLIGHT, "(leg[T_REFRESH] - t) * (pace / _pace(flight))", "(leg[T_REFRESH] - t)"),),
        (engine("law::test_rates", "points"), engine(SAME_EVENTS, "points")),
    ),
    Bug(
        "N10",
        "times of leaving count from the sweep in which they were drawn",
        (Edit(POINTS, "points.due[points.order[k]] -= sweep_time", "pass"),),
        (engine(SAME_EVENTS, "points"),),
    ),
    Bug(
        "N11",
        "times of leaving are not restored",
        (
            Edit(POINTS, '"order", "number", "due",\n', '"order", "number",\n'),
            Edit(POINTS, '        "due": lambda points: (-1.0, inf),\n', ""),
        ),
        (engine("flight::test_a_restored_state_continues_with_the_same_bytes", "spike-slab"),),
    ),
    Bug(
        "N12",
        "times of leaving are kept where the target has changed",
        (
            Edit(FLIGHT, "    place_points(flight.points, view, flight.row, flight.v, flight.rng)\n", ""),
            Edit(
                FLIGHT,
                "        leg[T_REFRESH] = _time_to_refresh(flight)\n        leg",
                "        place_points(flight.points, view, flight.row, flight.v, flight.rng)\n"
                "        leg[T_REFRESH] = _time_to_refresh(flight)\n        leg",
            ),
        ),
        (engine("points::test_a_rest_follows_the_target"),),
    ),
    Bug(
        "N13",
        "coordinates pay a toll to come to a point",
        (Edit(FLIGHT, "            jump = 0.0\n", "            jump += 0.0\n"),),
        (engine("law::test_final_state", "points"),),
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
    Bug(
        "N16",
        "values that round beside a point are taken for a jump",
        (Edit(POTENTIAL, "_jump(x, size, cells.first)", "_jump(x, np.abs(x), cells.first)"),),
        (engine("points::test_points_are_told_from_intervals"),),
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
                "    multiply_root(flight.root, flight.hit, flight.v)\n",
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
        (Edit(BPS_OF_PATHS, '"v": np.full(target.d, np.nan)', '"v": motion.v'),),
        (engine("metric_flight::test_velocities_are_drawn_where_the_covariance_changes"),),
    ),
    Bug(
        "Q8",
        "a particle goes on with the old covariance",
        (Edit(BPS_OF_PATHS, "target.box | {", "{"),),
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
