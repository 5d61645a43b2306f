"""A target is one file: its public name, its JSON kind and its example are found, and nothing else is edited."""

from __future__ import annotations

import importlib.util
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import bouncy
from bouncy._registry import named_classes
from bouncy.piecewise.contract import PathTarget
from bouncy.samplers.contract import Sampler
from bouncy.targets import contract
from bouncy.targets.contract import Target

RING = '''
from typing import NamedTuple
import numpy as np
from bouncy._labels import read_labels
from bouncy.targets.by_address import linked
from bouncy.targets.contract import Target, target_part

class IsingRing(Target):
    """log p(s) = coupling sum_i s_i s_(i+1) on a ring."""

    json_kind = "ising-ring"

    def __init__(self, d, coupling, labels=None):
        self.d, self.coupling, self._labels = d, coupling, read_labels(labels, d)

    def view(self):
        return linked(Ring(self.coupling), self.d)

    def to_json(self):
        return {"d": self.d, "coupling": self.coupling}

    @classmethod
    def from_json(cls, fields):
        d = fields.count("d", 1)
        return cls(d, fields.number("coupling"), fields.labels(d))

@target_part()
class Ring(NamedTuple):
    coupling: float

    def flip_cost(self, s, i):
        return 2.0 * self.coupling * s[i] * (s[i - 1] + s[(i + 1) % s.size])

EXAMPLES = {"ising-ring": lambda: IsingRing(4, 0.3)}
'''

USE = """
import math, sys
import bouncy, bouncy.targets
bouncy.targets.__path__.append(sys.argv[1])
assert "IsingRing" in dir(bouncy) and "IsingRing" in bouncy.__all__
ring = bouncy.IsingRing(5, 0.3)
from bouncy import *
assert IsingRing is type(ring)
bouncy.testing.check_target(bouncy.targets.examples()["ising-ring"]())
# costs alone give log p relative to that of the state of all -1
log_z = bouncy.exact(ring).log_z + 5 * 0.3
assert math.isclose(log_z, math.log((2 * math.cosh(0.3)) ** 5 + (2 * math.sinh(0.3)) ** 5)), log_z
ring = bouncy.IsingRing(5, 0.3, tuple("abcde"))
bouncy.save_model(ring, sys.argv[1] + "/ring.json")
again = bouncy.load_model(sys.argv[1] + "/ring.json")
assert type(again) is IsingRing and (again.d, again.coupling, again.labels) == (5, 0.3, tuple("abcde"))
"""


def run(script, *arguments):
    done = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_new_target_is_one_file(tmp_path):
    """Would catch a list that has to be edited for a new target, and a default that built-in targets do not get."""
    (tmp_path / "ising_ring.py").write_text(RING)
    run(USE, str(tmp_path))


@pytest.mark.parametrize(
    ("package", "kind"),
    [("bouncy.targets", Target), ("bouncy.piecewise.targets", PathTarget), ("bouncy.samplers", Sampler)],
)
def test_classes_named_after_their_files_are_public(package, kind):
    """Would catch a helper that becomes public by accident, and a part that does not."""
    found = named_classes(package)
    assert found
    for name, module in found.items():
        assert issubclass(getattr(bouncy, name), kind)
        assert getattr(bouncy, name).__module__ == module
        assert name in bouncy.__all__


def test_names_cost_no_import():
    """Would catch an `import bouncy` or a `dir` that waits for numba."""
    run("import sys, bouncy; bouncy.__version__; dir(bouncy); assert not {'numba', 'scipy'} & set(sys.modules)")


def test_modules_are_attributes():
    """Would catch a module of the package that needs an import of its own."""
    for name in ("conjugate", "experiments", "piecewise", "plots", "testing"):
        assert inspect.ismodule(getattr(bouncy, name))
        assert name in dir(bouncy)


@pytest.mark.parametrize("name", ["dimod", "pymc"])
def test_modules_for_other_packages_are_attributes(name):
    """Would catch a `bouncy.dimod` that needs an import of its own, and an error that does not say what to install."""
    if importlib.util.find_spec(name):
        assert getattr(bouncy, name).__name__ == f"bouncy.{name}"
    else:
        with pytest.raises(ImportError, match="pip install"):
            getattr(bouncy, name)


def test_the_contract_is_documented_in_the_same_words():
    """Would catch a function whose meaning in `Custom` or in the manual drifts from its declaration."""
    manual = (Path(__file__).parents[2] / "docs" / "targets.md").read_text()
    custom = " ".join(inspect.getdoc(bouncy.Custom).split())
    parameters = inspect.signature(bouncy.Custom).parameters
    for function in contract.FUNCTIONS:
        assert function.__name__ in parameters
        verb, meaning = function.__doc__.partition(".\n")[0].partition(". ")[0].rstrip(".").split(" ", 1)
        said = f"{verb.lower()}s {meaning}"
        assert said in custom
        assert said.partition(":")[0] in manual
