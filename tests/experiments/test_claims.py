"""Verdicts on the claims of the paper follow from the rows, and from nothing else."""

import pytest

from bouncy.experiments.claims import judge
from experiments.made_up import levels, make

PAPER = {
    ("figure1", 0.2): levels(bps_exponential=1, bps_gaussian=2, hmc=3),
    ("figure1", 2.0): levels(bps_exponential=2, bps_gaussian=3, hmc=1),
    ("figure2", 0.02): levels(bps_exponential=2, bps_gaussian=1, hmc=3),
    ("figure2", 0.05): levels(bps_exponential=2, bps_gaussian=1, hmc=3),
    ("figure2", 0.1): levels(bps_exponential=4, bps_gaussian=2, hmc=1),
    ("figure2", 0.2): levels(bps_exponential=4, bps_gaussian=2, hmc=1),
    ("figure2", 0.5): levels(bps_exponential=4, bps_gaussian=2, hmc=1),
}


def results_like(table, figures=("figure1", "figure2"), runs=30):
    """Return results in which each cell has the levels that `table` gives to its figure and sigma_M."""
    results = {}
    for figure in figures:

        def level(edition, sampler, estimator, sigma_M, sigma_r, figure=figure):
            return table[figure, sigma_M](edition, sampler, estimator, sigma_M, sigma_r)

        results[figure] = make(figure, level, runs=runs)
    return results


def words(results, edition="published"):
    return {verdict.number: verdict.verdict for verdict in judge(results) if verdict.edition == edition}


def verdict_on(number, results, edition="published"):
    (found,) = [verdict for verdict in judge(results) if (verdict.number, verdict.edition) == (number, edition)]
    return found


def test_what_the_paper_says_reproduces():
    """Catches a claim that is judged by the wrong cells, samplers or side of 1."""
    results = results_like(PAPER)
    for edition in ("published", "ours"):
        assert words(results, edition) == dict.fromkeys(range(1, 6), "reproduces")
    verdict = verdict_on(1, results)
    assert [comparison.rival for comparison in verdict.comparisons] == ["bps-gaussian"] * 4
    assert all(1.8 < comparison.ratio.value < 2.2 for comparison in verdict.comparisons)


def test_the_opposite_does_not_reproduce():
    """Catches verdicts that always favour the paper."""
    other = levels(bps_exponential=3, bps_gaussian=2, hmc=1)
    opposite = {
        **{key: other for key in PAPER},
        ("figure1", 2.0): levels(bps_exponential=2, bps_gaussian=1, hmc=3),
        ("figure2", 0.2): levels(bps_exponential=2, bps_gaussian=1, hmc=3),
        ("figure2", 0.5): levels(bps_exponential=2, bps_gaussian=1, hmc=3),
    }
    assert words(results_like(opposite)) == dict.fromkeys(range(1, 6), "does not reproduce")


def test_ties_are_undecided():
    """Catches a tie that is rounded in favour of the paper."""
    assert words(results_like(dict.fromkeys(PAPER, levels()))) == dict.fromkeys(range(1, 6), "undecided")


def test_equal_rows_are_undecided():
    """Catches a claim that holds with a ratio of exactly 1."""
    results = results_like(PAPER)
    flat = {
        figure: (settings, [row._replace(mse=1e-4) for row in rows]) for figure, (settings, rows) in results.items()
    }
    verdict = verdict_on(1, flat)
    assert verdict.verdict == "undecided"
    assert {comparison.ratio.value for comparison in verdict.comparisons} == {1.0}


def test_two_runs_are_undecided():
    """Catches a verdict from a run that is too short to have one."""
    assert set(words(results_like(PAPER, runs=2)).values()) == {"undecided"}


def test_claim_that_holds_here_and_fails_there_is_mixed_and_says_where():
    """Catches a claim that reproduces in part although it fails in a cell, and a verdict that does not say where."""

    def level(edition, sampler, estimator, sigma_M, sigma_r):
        best = "bps-exponential" if sigma_r in (0.0, 0.5) else "hmc"
        return 1e-5 if sampler == best else 2e-5

    verdict = verdict_on(1, {"figure1": make("figure1", level)})
    assert verdict.verdict == "mixed"
    assert "holds at sigma_M = 0.2, sigma_r = 0 and 0.5; fails at sigma_M = 0.2, sigma_r = 0.1 and 1" in verdict.line


def test_claim_that_holds_here_and_is_undecided_there_reproduces_in_part():
    """Catches doubt in one cell that is counted as a failure, or not at all."""
    verdict = verdict_on(3, results_like({**PAPER, ("figure2", 0.05): levels()}))
    assert verdict.verdict == "reproduces in part"
    assert "holds at sigma_M = 0.02; undecided at sigma_M = 0.05" in verdict.line


def test_failure_outweighs_doubt_in_other_cells():
    """Catches a claim that reproduces in part because a cell is undecided, although another fails."""

    def level(edition, sampler, estimator, sigma_M, sigma_r):
        best = {0.0: "bps-exponential", 0.1: "hmc"}.get(sigma_r)
        return 1e-5 if sampler == best else 2e-5

    verdict = verdict_on(1, {"figure1": make("figure1", level)})
    assert verdict.verdict == "mixed"
    assert {comparison.outcome for comparison in verdict.comparisons} == {"holds", "fails", "undecided"}


def test_claim_that_holds_nowhere_and_fails_somewhere_does_not_reproduce():
    """Catches a failure that is hidden behind cells that are undecided."""
    table = {**PAPER, ("figure2", 0.02): levels(), ("figure2", 0.05): levels(bps_gaussian=2, hmc=1)}
    assert words(results_like(table))[3] == "does not reproduce"


def test_middle_is_shown_but_not_judged_by():
    """Catches sigma_M = 0.1 deciding whether low or high sigma_M reproduces."""
    for best in ("bps_exponential", "bps_gaussian", "hmc"):
        results = results_like({**PAPER, ("figure2", 0.1): levels(**{best: 1})})
        for number in (3, 4):
            verdict = verdict_on(number, results)
            assert verdict.verdict == "reproduces"
            (middle,) = [comparison for comparison in verdict.comparisons if not comparison.judged]
            assert middle.cell.sigma_M == 0.1
            assert middle.better == best.replace("_", "-")


@pytest.mark.parametrize(("figure", "measured"), [("figure1", {1, 2}), ("figure2", {3, 4})])
def test_figure_that_was_not_run_is_not_measured(figure, measured):
    """Catches a crash, or a verdict from nothing, when only one figure was run."""
    for number, word in words(results_like(PAPER, figures=[figure])).items():
        assert word == ("reproduces" if number in measured else "not measured")
    assert all(verdict.line for verdict in judge(results_like(PAPER, figures=[figure])))


def test_nothing_at_all_is_not_measured():
    """Catches a crash on a run that was stopped before its first result."""
    assert {verdict.verdict for verdict in judge({})} == {"not measured"}


def test_cell_that_is_missing_keeps_a_claim_from_reproducing():
    """Catches a claim that reproduces although not all its cells were measured."""
    settings, rows = results_like(PAPER)["figure2"]
    kept = [row for row in rows if row.sigma_M != 0.05]
    verdict = verdict_on(3, {"figure2": (settings, kept)})
    assert verdict.verdict == "reproduces in part"
    assert "not measured at sigma_M = 0.05" in verdict.line


def test_other_estimators_and_samplers_do_not_count():
    """Catches a claim about the paper's samplers that is decided by Gibbs, a ladder or conditional means."""

    def level(edition, sampler, estimator, sigma_M, sigma_r):
        extra = (
            sampler in ("gibbs", "metropolis", "tempered")
            or estimator == "conditional"
            or (sampler, estimator) == ("hmc", "path")
        )
        return 1e-9 if extra else PAPER["figure1", sigma_M](edition, sampler, estimator, sigma_M, sigma_r)

    results = {"figure1": make("figure1", level)}
    assert words(results, "ours")[1] == words(results, "ours")[2] == "reproduces"


def test_editions_are_judged_apart():
    """Catches one edition's rows deciding the other's verdict."""

    def level(edition, sampler, estimator, sigma_M, sigma_r):
        best = "bps-exponential" if edition == "published" else "hmc"
        return 1e-5 if sampler == best else 2e-5

    results = {"figure1": make("figure1", level)}
    assert words(results, "published")[1] == "reproduces"
    assert words(results, "ours")[1] == "does not reproduce"


EXPONENTIAL, GAUSSIAN = levels(bps_exponential=1, bps_gaussian=2), levels(bps_exponential=2, bps_gaussian=1)
SMALL = [key for key in PAPER if key[0] == "figure1"]
LARGE = [key for key in PAPER if key[0] == "figure2"]


@pytest.mark.parametrize(
    ("small", "large", "word"),
    [
        ([EXPONENTIAL] * 2, [GAUSSIAN] * 5, "reproduces"),
        ([GAUSSIAN] * 2, [EXPONENTIAL] * 5, "reproduces"),
        ([EXPONENTIAL] * 2, [GAUSSIAN] * 4 + [levels()], "reproduces in part"),
        ([EXPONENTIAL, levels()], [levels()] * 4 + [GAUSSIAN], "reproduces in part"),
        ([EXPONENTIAL] * 2, [GAUSSIAN] * 4 + [EXPONENTIAL], "mixed"),
        ([EXPONENTIAL, GAUSSIAN], [GAUSSIAN] * 4 + [levels()], "mixed"),
        ([EXPONENTIAL, GAUSSIAN], [GAUSSIAN] * 4 + [EXPONENTIAL], "does not reproduce"),
        ([EXPONENTIAL] * 2, [EXPONENTIAL] * 5, "does not reproduce"),
        ([EXPONENTIAL] * 2, [EXPONENTIAL] * 4 + [levels()], "does not reproduce"),
        ([EXPONENTIAL, GAUSSIAN], [levels()] * 5, "undecided"),
        ([EXPONENTIAL] * 2, [levels()] * 5, "undecided"),
    ],
)
def test_augmentation_depends_on_d_only_if_both_sides_are_seen(small, large, word):
    """Catches a preference that is read out of one d alone, or out of a dependence on sigma_M."""
    table = {**dict(zip(SMALL, small, strict=True)), **dict(zip(LARGE, large, strict=True))}
    assert words(results_like(table))[5] == word


MIXED = {**PAPER, ("figure1", 2.0): GAUSSIAN, ("figure2", 0.02): EXPONENTIAL, ("figure2", 0.2): levels()}


@pytest.mark.parametrize("table", [PAPER, MIXED, dict.fromkeys(PAPER, levels())])
@pytest.mark.parametrize("figures", [("figure1",), ("figure1", "figure2")])
def test_line_is_one_whole_line_of_ascii(table, figures):
    """Catches a verdict that breaks a terminal which cannot show Greek letters, or that leaves something out."""
    for verdict in judge(results_like(table, figures)):
        assert "\n" not in verdict.line
        assert verdict.line.isascii()
        assert verdict.line.startswith(f"{verdict.number}. {verdict.claim} [")
        assert f"]: {verdict.verdict}" in verdict.line
        assert verdict.line.endswith(f"({verdict.detail})" if verdict.detail else "not measured")
        assert bool(verdict.detail) == (verdict.verdict != "not measured")
