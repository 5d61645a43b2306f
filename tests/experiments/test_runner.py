"""Measuring a figure: equal CPU time, right moments, and nothing lost or repeated when it is stopped."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

import bouncy
from bouncy.experiments import contenders, ledger, ours, runner
from bouncy.experiments.contenders import CONTENDERS, Contender, Measurement, enter, run_contender
from bouncy.experiments.ledger import HEADER, Ledger, complete_runs, describe_machine, format_rows
from bouncy.experiments.runner import Task, draw_model, measure, run_task, shuffled_tasks, squared_errors
from bouncy.experiments.settings import load
from bouncy.recorders.contract import REFRESHMENTS
from bouncy.recorders.pairs import has_pairs
from bouncy.samplers.tempered import Tempered
from conftest import base_seed
from experiments.in_process import made_up_measurement, make_up_measurements

pytestmark = pytest.mark.slow

SEED = 5
ROWS_PER_RUN = sum(len(contender.estimators) for contender in CONTENDERS)


def small():
    """Return settings of two runs in one cell."""
    return replace(load("figure1", "tiny"), sigma_M=(0.2,), sigma_r=(0.5,))


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """Return a directory with a tiny figure 1, and its rows, whose errors are made up."""
    directory = tmp_path_factory.mktemp("measured")
    with pytest.MonkeyPatch.context() as monkeypatch:
        make_up_measurements(monkeypatch)
        return directory, measure(load("figure1", "tiny"), directory, SEED, progress=False)


@pytest.fixture
def copy_of(measured, tmp_path):
    """Return a copy of that directory, to be damaged."""
    shutil.copytree(measured[0], tmp_path / "copy")
    return tmp_path / "copy"


def tasks_of(rows):
    return {Task(row.sigma_M, row.sigma_r, row.run) for row in rows}


def test_every_estimator_of_every_contender_in_every_run(measured):
    """Catches a contender, an estimator, a cell or a run that is left out, or measured twice."""
    settings = load("figure1", "tiny")
    rows = measured[1]
    found = [(r.edition, r.sampler, r.estimator, r.sigma_M, r.sigma_r, r.run) for r in rows]
    expected = {
        (contender.edition, contender.sampler, estimator, *cell, run)
        for contender in CONTENDERS
        for estimator in contender.estimators
        for cell in settings.cells
        for run in range(settings.runs)
    }
    assert len(found) == len(set(found))
    assert set(found) == expected
    assert {row.seed for row in rows} == {SEED}


def test_errors_add_up(measured):
    """Catches a sum that forgets a part."""
    for row in measured[1]:
        assert row.mse == row.mse_mean + row.mse_pairs
        assert 0 < row.flips <= row.hits


def test_the_file_holds_the_rows(measured):
    """Catches rows that are returned but not kept, and a sidecar that does not say what they are."""
    directory, rows = measured
    text = (directory / "figure1.csv").read_text()
    assert text.startswith(HEADER)
    assert sorted(text.splitlines()[1:]) == sorted(format_rows(rows).splitlines())
    origin = json.loads((directory / "figure1.json").read_text())
    assert origin["seed"] == SEED
    assert origin["runs"] == 2
    assert origin["version of bouncy"] == bouncy.__version__
    assert {name: origin[name] for name in describe_machine()} == describe_machine()


def test_a_figure_that_is_complete_is_not_measured_again(measured, monkeypatch):
    """Catches work that is repeated, or a file that is written, although nothing is missing."""
    directory, rows = measured
    before = (directory / "figure1.csv").stat()
    monkeypatch.setattr(runner, "single_threaded_pool", lambda workers: pytest.fail("processes were started"))
    assert measure(load("figure1", "tiny"), directory, SEED, progress=False) == rows
    assert (directory / "figure1.csv").stat().st_mtime_ns == before.st_mtime_ns


def test_missing_runs_are_measured_and_others_are_kept(measured, copy_of, monkeypatch):
    """Catches a resumed figure that repeats or changes kept runs, or never gets the lost ones."""
    path = copy_of / "figure1.csv"
    text = path.read_text()
    path.write_text(text[: len(text) // 2])
    whole_runs = (text[: len(text) // 2].count("\n") - 1) // ROWS_PER_RUN
    kept = text.splitlines()[: 1 + ROWS_PER_RUN * whole_runs]
    assert 1 <= whole_runs <= 6
    make_up_measurements(monkeypatch)
    rows = measure(load("figure1", "tiny"), copy_of, SEED, progress=False)
    assert tasks_of(rows) == tasks_of(measured[1])
    assert len(rows) == len(measured[1])
    after = path.read_text().splitlines()
    assert after[: len(kept)] == kept
    assert len(after) == 1 + len(rows)


@pytest.mark.parametrize("cut", [1, 20, 400])
def test_an_unfinished_run_is_dropped(measured, copy_of, cut):
    """Catches a run of which rows were lost, and which then counts as measured."""
    path = copy_of / "figure1.csv"
    text = path.read_text()
    path.write_text(text[:-cut])
    rows = Ledger(copy_of, load("figure1", "tiny"), SEED).open()
    assert len(rows) == len(measured[1]) - ROWS_PER_RUN
    assert path.read_text().splitlines() == text.splitlines()[:-ROWS_PER_RUN]
    assert sorted(entry.name for entry in copy_of.iterdir()) == ["figure1.csv", "figure1.json"]


def test_of_a_run_that_was_written_twice_the_first_copy_counts(measured):
    """Catches runs that count double in a median, or that two processes at once make each other lose."""
    rows = measured[1]
    other = [row._replace(mse=7.0) for row in rows[:ROWS_PER_RUN]]
    assert complete_runs([*rows, *other]) == rows
    assert complete_runs([*rows, other[0]]) == rows


def test_a_copy_is_not_completed_from_another(measured):
    """Catches a run put together from the beginning of one copy and the end of another."""
    rows = measured[1]
    other = [row._replace(mse=7.0) for row in rows[:ROWS_PER_RUN]]
    assert complete_runs([*other[:3], *rows]) == rows
    assert complete_runs([*other[:3], *rows[: ROWS_PER_RUN - 1]]) == []


def test_reading_changes_nothing(copy_of):
    """Catches a look at a figure that cuts off what another process is just writing."""
    path = copy_of / "figure1.csv"
    path.write_text(path.read_text()[:-20])
    before = path.read_bytes()
    rows = Ledger(copy_of, load("figure1", "tiny"), SEED).read()
    assert len(rows) % ROWS_PER_RUN == 0
    assert len(rows) > 0
    assert path.read_bytes() == before
    assert Ledger(copy_of / "nowhere", load("figure1", "tiny"), SEED).read() == []
    assert not (copy_of / "nowhere").exists()


@pytest.mark.parametrize(
    ("change", "seed", "message"),
    [
        ({}, 6, r"seed = 5, but asked for is seed = 6"),
        ({"seconds": 0.02}, SEED, r"seconds = 0\.01, but asked for is seconds = 0\.02"),
        (
            {"runs": 3, "sigma_r": (0.0,)},
            SEED,
            r"sigma_r = \[0\.0, 0\.5\], runs = 2, but asked for is sigma_r = \[0\.0\]",
        ),
    ],
)
def test_rows_of_other_settings_are_refused(copy_of, change, seed, message):
    """Catches runs of different lengths or models in one median, and an error that does not say what to do."""
    settings = replace(load("figure1", "tiny"), **change)
    before = (copy_of / "figure1.csv").read_bytes()
    with pytest.raises(ValueError, match=message) as error:
        measure(settings, copy_of, seed, progress=False)
    assert "Choose another directory (--out), or delete figure1.csv" in str(error.value)
    assert (copy_of / "figure1.csv").read_bytes() == before


def test_rows_of_another_version_are_refused(copy_of, monkeypatch):
    """Catches runs of faster and slower code in one median."""
    monkeypatch.setattr(bouncy, "__version__", "0.0.1", raising=False)
    with pytest.raises(ValueError, match=r"version of bouncy = .*asked for is version of bouncy = '0\.0\.1'"):
        Ledger(copy_of, load("figure1", "tiny"), SEED).open()


@pytest.mark.parametrize("name", describe_machine())
def test_rows_of_another_machine_are_refused(copy_of, monkeypatch, name):
    """Catches runs of a faster and a slower machine in one median."""
    other = {**describe_machine(), name: "other"}
    monkeypatch.setattr(ledger, "describe_machine", lambda: other)
    with pytest.raises(ValueError, match=rf"measured with {name} = .*but asked for is {name} = 'other'\. Choose"):
        Ledger(copy_of, load("figure1", "tiny"), SEED).open()


@pytest.mark.parametrize("content", [None, "", "[1, 2]", "{"])
def test_rows_of_unknown_origin_are_refused(copy_of, content):
    """Catches a file that is continued although its settings are unknown."""
    origin = copy_of / "figure1.json"
    origin.unlink() if content is None else origin.write_text(content)
    with pytest.raises(ValueError, match=r"cannot be continued.*figure1\.json.*Choose another directory"):
        Ledger(copy_of, load("figure1", "tiny"), SEED).open()


def test_a_damaged_file_is_refused_by_name(copy_of):
    """Catches an error that does not name the file, and runs that are thrown away silently."""
    path = copy_of / "figure1.csv"
    path.write_text(path.read_text().replace("published", "pub\n", 1))
    with pytest.raises(ValueError, match=r"figure1\.csv is damaged: line 2 .*delete figure1\.csv"):
        Ledger(copy_of, load("figure1", "tiny"), SEED).open()


def test_tasks_come_in_an_order_that_mixes_cells():
    """Catches cells that are measured one after the other, so that a slow hour falls on one of them."""
    settings = load("figure1", "paper")
    tasks = shuffled_tasks(settings, SEED)
    assert tasks == shuffled_tasks(settings, SEED)
    assert sorted(tasks) == sorted(Task(*cell, run) for cell in settings.cells for run in range(settings.runs))
    assert len({task[:2] for task in tasks[:40]}) == len(settings.cells)


def test_a_model_depends_on_seed_cell_and_run_alone():
    """Catches runs that share a model, and a quick version that looks at other models than the full one."""
    paper, tiny = load("figure1", "paper"), load("figure1", "tiny")
    task = Task(0.2, 0.5, 1)
    model, seeds = draw_model(task, paper, 1)
    again, _ = draw_model(task, tiny, 1)
    assert np.array_equal(model.M, again.M)
    assert np.array_equal(model.r, again.r)
    others = [
        draw_model(task, paper, 2),
        draw_model(task._replace(run=2), paper, 1),
        draw_model(task._replace(sigma_r=0.1), paper, 1),
        draw_model(task, replace(load("figure2", "paper"), d=10), 1),
    ]
    assert not any(np.array_equal(model.M, other.M) for other, _ in others)
    states = [tuple(seed.generate_state(4)) for seed in seeds]
    assert len(set(states)) == len(CONTENDERS)


def test_first_contender_changes_from_run_to_run(monkeypatch):
    """Catches a contender that always runs first, or one that is left out when the order turns."""
    order = []

    def fake(contender, *arguments):
        order.append(contender)
        return made_up_measurement(contender, *arguments)

    monkeypatch.setattr(runner, "run_contender", fake)
    first = []
    for run in range(len(CONTENDERS)):
        order.clear()
        run_task(Task(0.2, 0.5, run), small(), SEED)
        assert sorted(order) == sorted(CONTENDERS)
        first.append(order[0])
    assert sorted(first) == sorted(CONTENDERS)


def test_squared_errors():
    """Catches a diagonal, or pairs counted twice, in the error of pairs, and sums in place of means."""
    truth = np.zeros(3), np.eye(3)
    pair_mean = np.array([[7.0, 1.0, 2.0], [9.0, 7.0, 3.0], [9.0, 9.0, 7.0]])
    mse_mean, mse_pairs = squared_errors((np.array([1.0, 0.0, 2.0]), pair_mean), truth)
    assert mse_mean == pytest.approx(5 / 3)
    assert mse_pairs == pytest.approx(14 / 3)
    assert np.isnan(squared_errors((np.zeros(3), None), (np.zeros(3), None))[1])


def test_errors_are_those_against_the_model_that_was_sampled(monkeypatch):
    """Catches moments that are compared with the truth of another model: the exact ones must have no error."""

    def exactly(contender, target, seed, settings):
        answer = bouncy.exact(target)
        return Measurement({name: (answer.mean, answer.pair_mean) for name in contender.estimators}, 0.01, 2, 1)

    monkeypatch.setattr(runner, "run_contender", exactly)
    for task in (Task(0.2, 0.5, 0), Task(0.2, 0.5, 1), Task(2.0, 0.0, 0)):
        rows = run_task(task, small(), SEED)
        assert len(rows) == ROWS_PER_RUN
        assert max(row.mse for row in rows) < 1e-20


@pytest.mark.parametrize("contender", CONTENDERS, ids=lambda c: f"{c.edition}-{c.sampler}-{c.estimators[0]}")
def test_estimates_are_those_of_the_model(contender, monkeypatch):
    """Catches moments of the wrong estimator or scale, in any contender: an error of 0.06 in one of them.

    A clock on which every unit of work takes two microseconds makes the length of a chain, and so the result, a matter
    of the seed. Standard errors are at most 0.006: 0.03 are five of them, a false alarm below 2e-4 in all 210 numbers.
    """
    run_on_a_clock_of_units(monkeypatch, 2e-6)
    target = bouncy.MRF.random(5, 0.3, 0.5, seed=base_seed())
    truth = bouncy.exact(target)
    settings = replace(load("figure1", "tiny"), seconds=0.1, travel_time=1.5)
    found = run_contender(contender, target, np.random.SeedSequence(base_seed()), settings)
    assert tuple(sorted(found.moments)) == tuple(sorted(contender.estimators))
    assert 0 < found.flips < found.hits
    for mean, pair_mean in found.moments.values():
        assert abs(mean - truth.mean).max() < 0.03
        assert abs(pair_mean - truth.pair_mean).max() < 0.03
        assert np.diag(pair_mean) == pytest.approx(1.0)


def test_ends_are_not_charged_for_other_recordings():
    """Catches the paper's estimator slowed down by sweeps within a trajectory and by pairs that it does not use.

    The ends must be those of whole trajectories: as many as refreshments, and in each 6.5 d wall hits on average.
    """
    target = bouncy.MRF.random(10, 0.2, 0.5, seed=base_seed())
    seed = np.random.SeedSequence(base_seed())
    entry = enter(Contender("ours", "hmc", ("ends",)), target, seed, travel_time=6.5, pairs=True)
    entry.compile()
    entry.advance(5000)
    assert not has_pairs(entry.worker.recorder.pairs)
    assert entry.worker.sweep_time == pytest.approx(6.5 * np.pi)
    assert entry._sums().totals("events")[REFRESHMENTS] == pytest.approx(5000, abs=1)
    assert entry.counts()[0] / 5000 == pytest.approx(65.0, abs=0.2)
    assert list(entry.moments()) == ["ends"]


def test_every_draw_is_counted_once():
    """Catches ends that are lost or repeated where a block of draws is full."""
    target = bouncy.MRF(np.zeros((2, 2)), np.array([-50.0, 50.0]))  # the first spin is up, the second one down
    contender = Contender("ours", "hmc", ("ends",))
    entry = enter(contender, target, np.random.SeedSequence(base_seed()), travel_time=0.5, pairs=True)
    entry.advance(100)
    entry.forget()
    assert not entry.has_recorded()
    entry.advance(ours._BLOCK + 7)
    assert entry.has_recorded()
    assert entry._ends == ours._BLOCK + 7
    mean, pair_mean = entry.moments()["ends"]
    assert mean == pytest.approx([1.0, -1.0], abs=0.0)
    assert pair_mean == pytest.approx(np.array([[1.0, -1.0], [-1.0, 1.0]]), abs=0.0)


def run_on_a_clock_of_units(monkeypatch, seconds_per_unit):
    """Let the CPU time be the number of units of work that an entry has done, times a number of seconds."""
    new_entry, units = contenders.enter, []

    def enter(*arguments, **options):
        entry = new_entry(*arguments, **options)
        advance = entry.advance
        entry.advance = lambda n: (units.append(n), advance(n))
        return entry

    monkeypatch.setattr(contenders, "enter", enter)
    monkeypatch.setattr(contenders.time, "process_time", lambda: seconds_per_unit * sum(units))


class Clockwork:
    """An entry whose units of work take a known time of a made-up clock."""

    def __init__(self, monkeypatch, seconds_per_unit, seconds_per_call=0.0):
        self.now, self.units, self.forgotten, self.calls, self.recorded = 100.0, 0, None, 0, 0
        self._per_unit, self._per_call = seconds_per_unit, seconds_per_call
        monkeypatch.setattr(contenders.time, "process_time", lambda: self.now)

    def advance(self, units):
        self.calls += 1
        self.units += units
        self.recorded += units
        self.now += self._per_call + units * self._per_unit

    def forget(self):
        assert self.forgotten is None
        self.forgotten = self.now
        self.recorded = 0

    def has_recorded(self):
        return self.recorded >= 5


@pytest.mark.parametrize("unit", [1e-8, 1e-6, 1e-4, 5e-3])
def test_the_time_is_spent_and_not_much_more(monkeypatch, unit):
    """Catches slices that overshoot, that are too many, or a warm-up that is too long, at any speed of a sampler."""
    entry = Clockwork(monkeypatch, unit, 1e-5)
    spent = contenders._spend(entry, 0.5, 0.1)
    assert spent == pytest.approx(entry.now - 100.0)
    assert 0.5 <= spent <= 0.5 + max(unit + 2e-5, 0.001)
    assert 0.05 <= entry.forgotten - 100.0 <= 0.05 + max(unit + 2e-5, 0.001)
    assert entry.calls < 3 * contenders._SLICES


def test_a_coarse_clock_does_not_stop_the_measurement(monkeypatch):
    """Catches a division by zero, or a slice without end, where the clock has not moved."""
    entry = Clockwork(monkeypatch, 1e-6)
    monkeypatch.setattr(contenders.time, "process_time", lambda: entry.now // 0.0156 * 0.0156)
    contenders._spend(entry, 0.5, 0.1)
    assert 0.45 < entry.now - 100.0 < 0.6


def test_something_is_recorded_even_if_the_warm_up_took_all_the_time(monkeypatch):
    """Catches moments of nothing, where one tick of the clock is longer than the CPU time of a run."""
    entry = Clockwork(monkeypatch, 1e-5)
    monkeypatch.setattr(contenders.time, "process_time", lambda: entry.now // 0.0156 * 0.0156)
    assert contenders._spend(entry, 0.01, 0.1) > 0.0
    assert entry.recorded == 5


@pytest.mark.parametrize(("pilot", "spent", "sweeps"), [(0.0, 0.5, 4500), (0.3, 0.5, 1800), (0.7, 0.7, 1)])
def test_a_pilot_is_paid_for_and_compiling_is_not(monkeypatch, pilot, spent, sweeps):
    """Catches a tempered chain with a pilot for nothing, one that pays for compiling, and one that records nothing.

    On a made-up clock a scan takes 0.1 ms. A tenth of what a pilot of 0, 0.3 or 0.7 s leaves of 0.5 s is the warm-up.
    """
    now, d = [0.0], 5

    def passing(function, seconds):
        return lambda *given: (now.append(now[-1] + seconds(*given)), function(*given))[1]

    tuned = Tempered(ladder=(0.0, 0.5, 1.0), sweeps_per_swap=1)
    monkeypatch.setattr(Tempered, "prepared", passing(lambda *given: (tuned, ""), lambda *given: pilot))
    monkeypatch.setattr(ours.OurEntry, "compile", passing(ours.OurEntry.compile, lambda entry: 20.0))
    monkeypatch.setattr(ours.OurEntry, "advance", passing(ours.OurEntry.advance, lambda entry, units: 1e-4 * units))
    monkeypatch.setattr(contenders.time, "process_time", lambda: now[-1])
    target = bouncy.MRF.random(d, 0.3, 0.5, seed=base_seed())
    seed = np.random.SeedSequence(base_seed())
    found = run_contender(Contender("ours", "tempered", ("path",)), target, seed, load("figure1", "paper"))
    assert found.cpu_seconds == pytest.approx(spent, abs=3e-4)
    assert found.hits / d == pytest.approx(sweeps, rel=0.05, abs=3.0)


@pytest.mark.parametrize("contender", CONTENDERS, ids=lambda c: f"{c.edition}-{c.sampler}-{c.estimators[0]}")
def test_moments_of_the_shortest_run(monkeypatch, contender):
    """Catches an average over nothing, in any contender, where no trajectory or sweep has ended in time."""
    ticks = iter([0.0] * 4)  # the clock stands still, then all the time is over
    monkeypatch.setattr(contenders.time, "process_time", lambda: next(ticks, 1.0))
    target = bouncy.MRF.random(5, 0.3, 0.5, seed=base_seed())
    seed = np.random.SeedSequence(base_seed())
    found = run_contender(contender, target, seed, load("figure1", "paper"))
    assert found.cpu_seconds == 1.0
    assert found.hits > 0
    for mean, pair_mean in found.moments.values():
        assert abs(mean).max() <= 1.0
        assert np.isfinite(pair_mean).all()
