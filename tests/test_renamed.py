"""Old names of keywords: an error that tells the new ones, and functions that look as without the decorator."""

import inspect
import warnings

import pytest

import bouncy
from bouncy._renamed import renamed

MODEL = bouncy.MRF.random(3, seed=0)
ALL = [
    (bouncy.sample, MODEL, "every", "checkpoint_every"),
    (bouncy.resume, "nowhere", "every", "checkpoint_every"),
    (bouncy.resume, "nowhere", "draws", "total_draws"),
    (bouncy.resume, "nowhere", "seconds", "total_seconds"),
]


@pytest.mark.parametrize(("function", "argument", "old", "new"), ALL)
def test_an_old_name_tells_the_new_one(function, argument, old, new):
    """Catches a user of an earlier version who has to search for what became of an argument."""
    parameters = inspect.signature(function).parameters
    assert new in parameters
    assert old not in parameters
    with pytest.raises(TypeError, match=rf"{function.__name__}\(\) has no argument '{old}': its name is now '{new}'"):
        function(argument, **{old: 5})


def test_all_else_is_passed_on():
    """Catches arguments that are lost, and help() that shows the decorator."""

    @renamed(colour="color")
    def draw(size, *, color="red"):
        """Draw."""
        return size, color

    assert draw(1, color="blue") == (1, "blue")
    assert draw(size=2) == (2, "red")
    assert str(inspect.signature(draw)) == "(size, *, color='red')"
    assert (draw.__name__, draw.__doc__) == ("draw", "Draw.")
    with pytest.raises(TypeError, match="unexpected keyword argument 'shape'"):
        draw(1, shape=2)


def test_warnings_name_the_line_of_the_caller(tmp_path):
    """Catches warnings that point into the package, where nobody can do anything about them."""
    stiff = bouncy.MRF([[0.0]], [50.0])
    options = {"chains": 1, "draws": 5, "warmup": 5, "seed": 0, "initial": [-1], "progress": False}
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        run = bouncy.sample(stiff, "metropolis", checkpoint=tmp_path / "c", **options)
        run.extend(draws=5, progress=False)
        bouncy.resume(tmp_path / "c", stiff, progress=False)
    assert [(warning.category, warning.filename) for warning in found] == [(bouncy.NoFlipWarning, __file__)] * 3
