"""Standard errors from batches against closed forms."""

import numpy as np
import pytest
from scipy import stats

from bouncy.results.batches import estimate, normal_score, student_quantile


def test_mean_uses_everything_and_error_uses_full_batches(rng):
    """Catches a forgotten last partial batch and an error bar that is not scaled to the whole run."""
    closed, rest = rng.normal(size=(3, 5, 2)), rng.normal(size=(3, 2))
    result = estimate(closed, rest, batch=10.0, total=3 * 54.0)
    np.testing.assert_allclose(result.mean, (closed.sum((0, 1)) + rest.sum(0)) / 162.0)
    spread = (closed / 10.0).reshape(15, 2).std(axis=0, ddof=1)
    np.testing.assert_allclose(result.standard_error, spread / np.sqrt(16.2))
    assert result.degrees_of_freedom == 14


def test_too_few_batches_give_no_error_bar():
    """Catches an error bar of zero from a single batch."""
    result = estimate(np.ones((1, 1, 2)), np.zeros((1, 2)), 1.0, 1.0)
    assert np.isnan(result.standard_error).all()


def test_quantile_is_students():
    """Catches a normal quantile where Student's is due: 15 batches make it 9 % wider."""
    np.testing.assert_allclose(student_quantile(0.95, 14), stats.t.ppf(0.975, 14))
    with pytest.raises(ValueError, match="between 0 and 1"):
        student_quantile(95, 14)


def test_normal_score_keeps_the_tail_probability():
    """Catches a score that overflows or loses its sign far out in the tail."""
    t = np.array([-30.0, -2.0, 0.0, 2.0, 30.0])
    score = normal_score(t, 7)
    np.testing.assert_allclose(stats.norm.logsf(np.abs(score)), stats.t.logsf(np.abs(t), 7), rtol=1e-9)
    assert (np.sign(score) == np.sign(t)).all()
