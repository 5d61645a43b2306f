"""The command line in this process, and small models on disk."""

import numpy as np
import pytest

import bouncy
from bouncy.cli.main import main
from helpers.command_line import new_runner


@pytest.fixture
def invoke():
    """Call the command line with arguments of any type; `result.stdout` and `result.stderr` are kept apart."""
    runner = new_runner()
    return lambda *arguments, **options: runner.invoke(main, [str(argument) for argument in arguments], **options)


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Work in an empty directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def small(place):
    """A file of three named spins, in the directory that is worked in."""
    M = np.array([[0.0, -0.5, 0.25], [-0.5, 0.0, 0.0], [0.25, 0.0, 0.0]])
    target = bouncy.MRF(M, np.array([0.1, 0.0, -0.3]), offset=0.5, labels=["a", "b", "c"])
    bouncy.save_model(target, "small.json")
    return target
