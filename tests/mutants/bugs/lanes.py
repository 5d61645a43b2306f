"""Bugs of chains that share a clock."""

from __future__ import annotations

from .names import Bug, Edit, controls


def flock(test: str) -> str:
    """Return the node id of a test of chains that share a clock."""
    return f"tests/workers/test_flock.py::{test}"


def reading(case: str) -> str:
    """Return the node id of a test of what ladders read of all lanes."""
    return f"tests/targets/test_lanes.py::test_a_ladder_reads_log_prob_of_all_lanes_and_means_of_some[{case}]"


def twin(case: str) -> str:
    """Return the node id of the comparison of lanes with a plain loop."""
    return flock(f"test_lanes_are_chains_of_a_plain_loop[{case}]")


FIELD_LANES = "targets/field_lanes.py"
VECTOR = "_vector.py"
# Where a site of all lanes is about to be tried.
_PAYING = "    lane_costs(target, s, i, attempt.single)\n"
LANE_TOLL = "tolls/lanes.py"
LANE_READING = "targets/_lane_reading.py"
_FIRST_LANES = "self.builder.add(start, self.lane) if self.count < 32 else start"
LANE_RECORDER = "recorders/lanes.py"
CLUSTERS = "targets/_clusters.py"
PAIRS = "tests/workers/test_ladder_pairs.py::"
FLOCK = "workers/flock.py"
FLOCK_KERNEL = "workers/flock_kernel.py"

BUGS: tuple[Bug, ...] = (
    Bug(
        "V3",
        "spins of lanes at which means are recorded are not added up",
        (Edit("tolls/lanes.py", "total.read() + spin.read().to(INT32)", "spin.read().to(INT32)"),),
        (controls("test_spins_and_variances_are_those_where_means_are_recorded[8]"),),
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
        "M2",
        "means of lanes are recorded one attempt late",
        (Edit(LANE_RECORDER, "recorder.due[0] = recorder.every", "recorder.due[0] = recorder.every + 1"),),
        (twin("bps-gaussian-dense-small"),),
    ),
    Bug(
        "L23",
        "a cluster misses the first neighbour of a site",
        (Edit(CLUSTERS, " = near\n", " = near\n    filled[ends[:-1][degree > 0]] = d\n"),),
        (f"{PAIRS}test_a_cluster_is_a_component_of_the_sites_that_differ[graph-3]",),
    ),
    Bug(
        "L24",
        "a cluster is a single site",
        (Edit(CLUSTERS, "        partners.passes[0] += _grow(joints, partners.apart, partners.joined)\n", ""),),
        (f"{PAIRS}test_a_cluster_is_a_component_of_the_sites_that_differ[graph-3]",),
    ),
    Bug(
        "L33",
        "clusters grow once upwards and once downwards",
        (
            Edit(
                CLUSTERS,
                "            growing = _down(joints, apart, joined)\n",
                "            _down(joints, apart, joined)\n            growing = False\n",
            ),
        ),
        (f"{PAIRS}test_a_cluster_is_a_component_of_the_sites_that_differ[hub-16]",),
    ),
    Bug(
        "L34",
        "clusters leak from a site to the next one that is no neighbour",
        (Edit(CLUSTERS, "beside[near[near - row == 1]] = _ALL", "beside[1:d] = _ALL"),),
        (f"{PAIRS}test_a_cluster_is_a_component_of_the_sites_that_differ[graph-3]",),
    ),
    Bug(
        "L35",
        "partners turn the spins of another lane",
        (Edit(CLUSTERS, "other % WORD, partners.joined, k - first)", "other % WORD, partners.joined, 0)"),),
        (f"{PAIRS}test_ladders_keep_their_law[couplings]",),
    ),
    Bug(
        "L36",
        "lanes beyond the first word have the partners of those in it",
        (Edit(CLUSTERS, "partners.second[other // WORD]", "partners.second[0]"),),
        (f"{PAIRS}test_a_cluster_is_a_component_of_the_sites_that_differ[graph-70]",),
    ),
    Bug(
        "L37",
        "clusters always begin with the first site that differs",
        (Edit(CLUSTERS, "min(np.int64(uniform(rng) * d), d - 1)", "0"),),
        (f"{PAIRS}test_every_site_begins_a_cluster",),
    ),
    Bug(
        "L38",
        "clusters are exchanged after every scan",
        (Edit("tolls/ladder.py", "swaps.turn[0] % swaps.every == 0", "swaps.every > 0"),),
        (f"{PAIRS}test_clusters_are_exchanged_after_so_many_scans[2]",),
    ),
    Bug(
        "L39",
        "the second pair of ladders exchanges clusters of the first",
        (Edit("tolls/ladder.py", "trade_clusters(target, s, first, swaps", "trade_clusters(target, s, 0, swaps"),),
        (f"{PAIRS}test_ladders_keep_their_law[two pairs]",),
    ),
    Bug(
        "L40",
        "means of ladders beyond the second are not recorded",
        (Edit("recorders/ladder.py", "range(1, at_target.size)", "range(1, min(2, at_target.size))"),),
        (f"{PAIRS}test_means_are_those_of_all_ladders[dense]",),
    ),
    Bug(
        "L41",
        "what is read of two ladders stands for the next two",
        (Edit("targets/_lane_reading.py", "spins[n : n + 2], out[n : n + 2]", "spins[:2], out[n : n + 2]"),),
        (f"{PAIRS}test_means_are_those_of_all_ladders[two pairs]",),
    ),
    Bug(
        "L42",
        "the second pair of ladders exchanges no clusters",
        (Edit("tolls/ladder.py", "range(0, swaps.lane.size - rungs, 2 * rungs)", "range(min(1, rungs - 1))"),),
        (f"{PAIRS}test_ladders_keep_their_law[two pairs]",),
    ),
)
