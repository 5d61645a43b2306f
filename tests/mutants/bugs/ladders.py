"""Bugs of ladders of temperatures, and of their estimates."""

from __future__ import annotations

from .names import Bug, Edit, controls, tempered


def swap_ladder(test: str) -> str:
    """Return the node id of a test of ladders whose lanes exchange spins."""
    return f"tests/workers/test_swap_ladder.py::{test}"


def ladder(test: str) -> str:
    """Return the node id of a test of ladders."""
    return f"tests/workers/test_ladder.py::{test}"


SWAP_LADDER = "workers/swap_ladder_kernel.py"
LADDER_TOLL = "tolls/ladder.py"
LADDER_RECORDER = "recorders/ladder.py"
LADDER = "workers/ladder.py"
ADDRESS_LANES = "targets/address_lanes.py"
TEMPERED = "results/tempered.py"
PILOT = "samplers/_pilot.py"
AUTO = "samplers/auto.py"

BUGS: tuple[Bug, ...] = (
    Bug(
        "V9",
        "means of the second of two ladders beside spins of the first",
        (
            Edit(
                "recorders/ladder.py",
                "ColdView(cold.spins[n:], cold.means[n:], cold.value), cold.spins[n])",
                "ColdView(cold.spins[n:], cold.means[n:], cold.value), recorder.s)",
            ),
        ),
        (controls("test_both_ladders_of_a_pair_are_recorded"),),
    ),
    Bug(
        "F33",
        "lanes that trade temperatures decide at their old ones",
        (Edit(LADDER_TOLL, "    share_out(toll)\n", ""),),
        (ladder("test_the_product_law_stays[dense-bps-gaussian-uniform]"),),
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
        (Edit(LADDER_TOLL, "swaps.b.size - 1, swaps.turn[0] % 2", "swaps.b.size - 1, 0"),),
        (ladder("test_swaps_that_are_always_accepted_give_the_round_trips_of_the_closed_form"),),
    ),
    Bug(
        "L4",
        "swaps decide by the values after the scan before",
        (
            Edit(
                LADDER_TOLL,
                """    for k in range(b.size):
        value[k] = log_prob[np.uint64(lane[k])]
    _write_odds(accept[: b.size - 1], b, b[1:], value, value[1:])
""",
                """    _write_odds(accept[: b.size - 1], b, b[1:], value, value[1:])
    for k in range(b.size):
        value[k] = log_prob[np.uint64(lane[k])]
""",
            ),
        ),
        ("tests/workers/test_ladder_pairs.py::test_ladders_keep_their_law[couplings]",),
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
        (
            Edit(
                LADDER, "if not np.array_equal(lanes.ravel(), np.arange(lanes.size)):", "if lanes.max() >= lanes.size:"
            ),
        ),
        (ladder("test_forged_ladders_are_refused"),),
    ),
    Bug(
        "L43",
        "rungs may be in lanes of another ladder",
        (
            Edit(
                LADDER,
                'np.sort(state["toll.swaps.lane"].reshape(-1, self.rungs), axis=1)',
                'np.sort(state["toll.swaps.lane"])',
            ),
        ),
        (ladder("test_lanes_of_other_ladders_are_refused"),),
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
        "L25",
        "swaps look at energies from before an exchange of clusters",
        (
            Edit(
                LADDER_TOLL,
                "        swaps.before[k] = swaps.value[k]\n",
                "        swaps.before[k] = swaps.value[k]\n    _trade_clusters(swaps, target, s, 0)\n",
            ),
        ),
        ("tests/workers/test_ladder_pairs.py::test_ladders_keep_their_law[couplings]",),
    ),
    Bug(
        "L31",
        "functions keep their caches when a cluster is exchanged",
        (Edit(ADDRESS_LANES, "    init(lane_of(view, k), view.spins[k])\n    report", "    report"),),
        ("tests/workers/test_ladder_pairs.py::test_caches_are_those_of_the_spins_after_an_exchange[terms]",),
    ),
    Bug(
        "L32",
        "functions do not see the spins that a cluster exchanged",
        (Edit(ADDRESS_LANES, "        view.spins[k, i] = s[i, k]\n    init", "        pass\n    init"),),
        ("tests/workers/test_ladder_pairs.py::test_caches_are_those_of_the_spins_after_an_exchange[terms]",),
    ),
    Bug(
        "L26",
        "means of the other ladder go with the spins of the chain",
        (
            Edit(
                LADDER_RECORDER,
                "ColdView(cold.spins[n:], cold.means[n:], cold.value), cold.spins[n])",
                "ColdView(cold.spins[n:], cold.means[n:], cold.value), recorder.s)",
            ),
        ),
        ("tests/workers/test_ladder_pairs.py::test_means_are_those_of_all_ladders[pair]",),
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
        ("tests/workers/test_ladder_pairs.py::test_a_run_of_several_ladders_agrees_with_enumeration[couplings]",),
    ),
    Bug(
        "C11",
        "clusters are never tried by 'auto'",
        (Edit("samplers/auto.py", "if edges is None:", "if edges != -1:"),),
        ("tests/samplers/test_auto.py::test_magnets_are_sampled_by_clusters[two modes]",),
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
)
