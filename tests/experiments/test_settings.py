"""The settings: those of the paper, in three sizes."""

import pytest

from bouncy.experiments.settings import DEFAULT_OUT, FIGURES, VERSIONS, load, load_views


def test_figures_of_the_paper():
    """Catches a figure that is measured with other settings than the paper's."""
    first, second = load("figure1", "paper"), load("figure2", "paper")
    assert (first.d, first.sigma_M, first.sigma_r) == (10, (0.2, 2.0), (0.0, 0.1, 0.5, 1.0))
    assert (first.runs, first.travel_time, first.pairs) == (30, 6.5, True)
    assert (second.d, second.sigma_M, second.sigma_r) == (100, (0.02, 0.05, 0.1, 0.2, 0.5), (0.0,))
    assert (second.runs, second.travel_time, second.pairs) == (30, 0.5, False)


def test_cells_are_all_pairs():
    """Catches a cell that is left out."""
    assert load("figure1", "tiny").cells == [(0.2, 0.0), (0.2, 0.5), (2.0, 0.0), (2.0, 0.5)]


@pytest.mark.parametrize("figure", FIGURES)
def test_smaller_versions_cost_less_and_measure_the_same(figure):
    """Catches a quick version that is not quick, or that asks another question."""
    cost = []
    for version in VERSIONS:
        settings = load(figure, version)
        assert settings.version == version
        assert set(settings.cells) <= set(load(figure, "paper").cells)
        assert settings.d == load(figure, "paper").d
        assert settings.warmup == 0.1
        cost.append(len(settings.cells) * settings.runs * settings.seconds)
    assert cost[0] > 10 * cost[1] > 50 * cost[2]


def test_every_version_has_a_directory_of_its_own():
    """Catches a full run that is refused because a quick one came before."""
    assert set(DEFAULT_OUT) == set(VERSIONS)
    assert len(set(DEFAULT_OUT.values())) == len(VERSIONS)


def test_views_have_enough_states_for_their_lags():
    """Catches an autocorrelation that is asked for at lags longer than the series."""
    for version in VERSIONS:
        settings = load_views(version)
        assert settings.lags * 10 <= settings.states
        assert settings.trace <= settings.states


@pytest.mark.parametrize(
    ("figure", "version", "message"),
    [
        ("figure3", "paper", "figure is 'figure3'; expected one of: figure1, figure2"),
        ("views", "paper", "figure is 'views'"),
        ("figure1", "d", "version is 'd'; expected one of: paper, quick, tiny"),
    ],
)
def test_unknown_names_are_refused(figure, version, message):
    """Catches a name that gives some other settings, or an error that does not say what is known."""
    with pytest.raises(ValueError, match=message):
        load(figure, version)
