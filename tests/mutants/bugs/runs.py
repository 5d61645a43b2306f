"""Bugs of drivers, goals, files and results."""

from __future__ import annotations

from .names import Bug, Edit, controls, engine, goals, storage, tempered


def lanes(test: str) -> str:
    """Return the node id of a test of runs whose chains share clocks."""
    return f"tests/run/test_lanes.py::{test}"


CONTROLS = "results/controls.py"
ARCHIVE = "storage/archive.py"
CHECKPOINT = "storage/checkpoint.py"
INTERCHANGE = "storage/interchange.py"
ROWS = "storage/rows.py"
PRECISION = "run/precision.py"
DRIVER = "run/driver.py"
POOL = "run/pool.py"

BUGS: tuple[Bug, ...] = (
    Bug(
        "P74",
        "a run of a particle that is read without the expectations that its target has",
        (Edit("storage/unpack.py", "if known and found != ", "if known and found > "),),
        (storage("damage::test_a_run_that_lacks_the_expectations_of_its_target_is_refused"),),
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
        "G7",
        "chains that agreed in between are refused as if they never had",
        (Edit("run/goal.py", "            self.disagree_since = 0\n", "            pass\n"),),
        (goals("test_disagreement_must_last_to_end_a_run"),),
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
        "I6",
        "draws that fit neither into memory nor on the disk are begun",
        (Edit("run/estimate.py", "        return self.rows <= max", "        return True or self.rows <= max"),),
        ("tests/run/test_estimate.py::test_draws_are_refused_where_neither_memory_nor_disk_holds_them",),
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
        "V4",
        "the whole linear part is taken out, also where less of it makes errors smaller",
        (Edit(CONTROLS, 'both.best_share("plain", "other", where)', "1.0"),),
        (controls("test_no_more_is_taken_out_than_makes_errors_smaller"),),
    ),
    Bug(
        "V6",
        "what is linear is put in twice instead of being taken out",
        (Edit(CONTROLS, "V * (_rows(sums, pull) - m @ A)", "V * (m @ A - _rows(sums, pull))"),),
        (controls("test_a_gaussian_is_known_after_a_few_sweeps"),),
    ),
    Bug(
        "V8",
        "steps of half the length in the iteration of Chebyshev",
        (Edit(CONTROLS, "2.0 / half * residual", "1.0 / half * residual"),),
        (controls("test_steps_approach_the_solution_of_sparse_equations"),),
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
        "L11",
        "errors of log Z add up those of pairs as if they were independent",
        (Edit("results/moments.py", "np.sqrt((n - 1) * np.var(", "np.sqrt((n - 1) / 4 * np.var("),),
        (tempered("test_log_z_is_covered"),),
    ),
    Bug(
        "L22",
        "states that turn to and fro are taken to forget at once",
        (Edit("results/overlap.py", "1.0 - 2.0 * (np.arange(n) % 2)", "1.0 - 0.0 * (np.arange(n) % 2)"),),
        ("tests/plots/test_runs.py::test_overlap_within_a_chain_is_of_draws_that_are_far_apart[2000-True]",),
    ),
)
