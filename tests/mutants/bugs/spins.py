"""Bugs of the loop over the spins of one chain, of its tolls, targets and recorders."""

from __future__ import annotations

from .names import (
    HMC_EXPONENTIAL_TRIANGLE,
    HMC_TRIANGLE,
    TRIANGLE,
    Bug,
    Edit,
    constraints,
    controls,
    engine,
    goals,
    law,
    storage,
    swaps,
)


def conformance(test: str, case: str) -> str:
    """Return the node id of a test that every target passes."""
    return f"tests/targets/test_conformance.py::{test}[{case}]"


BUDGET = "tolls/budget.py"
KINETIC = "tolls/kinetic.py"
HEAT_BATH = "tolls/heat_bath.py"
HMC = "samplers/hmc.py"
SAMPLE = "_sample.py"
RANDOM = "_random.py"
RECORDER = "recorders/recorder.py"
BATCHES = "recorders/batches.py"
TRACKED = "recorders/tracked.py"
KERNEL = "workers/kernel.py"
FIELDS = "targets/fields.py"
BY_ADDRESS = "targets/by_address.py"
CUSTOM = "targets/custom.py"
CONDITIONING = "targets/conditioning.py"
CONTRACT = "targets/contract.py"
MRF = "targets/mrf.py"
SPARSE_TRIANGLE = "gaussian-frustrated-triangle-sparse"
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


def _overrun(stop: str) -> tuple[Edit, ...]:
    return (
        Edit(KERNEL, "        shift(clock, sweep_time)\n", _ONE_HIT_MORE.format(stop=stop)),
        Edit(KERNEL, "record_sweep(recorder, target, s, sweep_time)", "record_sweep(recorder, target, s, elapsed)"),
    )


BUGS: tuple[Bug, ...] = (
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
        "25",
        "HMC: travel time an integer multiple of pi, without a warning",
        (
            Edit(HMC, "DEFAULT_TRAVEL_TIME = 6.5 * pi", "DEFAULT_TRAVEL_TIME = 6.0 * pi"),
            Edit(HMC, "_NEAR = 1e-3", "_NEAR = -1.0"),
        ),
        ("tests/law/test_ergodic.py::test_law_is_reached_from_every_start[hmc-flat]",),
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
        "V7",
        "couplings of the first target are used for all that parameters lead to",
        (Edit("workers/within.py", "return without_couplings(constants)", "return constants"),),
        (controls("test_a_target_that_changes_has_no_controls"),),
    ),
    Bug(
        "G6",
        "a batch of a function is counted in the next one, too",
        (Edit(TRACKED, "                self.open = np.zeros_like(self.open)\n", ""),),
        (goals("test_tracked_batches_hold_everything"),),
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
        "R24",
        "the last lengths come from the last few sweeps of the warm-up",
        (Edit("workers/paths.py", "    known &= _total_moments(workers)[0] >= _LEAST_SEEN * whole\n", ""),),
        (engine("density::test_lengths_do_not_come_from_a_few_sweeps"),),
    ),
    Bug(
        "M1",
        "means of BPS are recorded at the ends of sweeps",
        (Edit(RECORDER, "recorder.due[0] = recorder.every", "recorder.due[0] = SWEEP_END"),),
        ("tests/workers/test_slices.py::test_path_averages_equal_those_of_the_event_list[bps-gaussian]",),
    ),
    Bug(
        "W2b",
        "a variable is no partner of its own partners",
        (Edit("targets/_regression.py", "one_way.maximum(one_way.T)", "one_way"),),
        (swaps("test_candidates_of_many_variables_need_no_matrix"),),
    ),
    Bug(
        "W6",
        "pair means of sites of one group are products of joint conditional means",
        (Edit(RECORDER, "    pairs_within(recorder.pairs, recorder.group, s, recorder.conditional)\n", ""),),
        (swaps("test_law_from_exact_starts[12000-0.08-colouring]"),),
    ),
    Bug(
        "W9",
        "exact passes over the allowed states whose last site of a group is up",
        (Edit("_allowed.py", "1 if k <= m + behind else -1", "1 if k < m + behind else -1"),),
        (constraints("test_exact_sums_over_allowed_states[sum]"),),
    ),
)
