"""The numba cache: hit in a second process, never stale, never in a place where others can write.

Each test runs small programs in processes of their own, on a package tree made for it: the real `_compile` and
`_dispatch` beside a kernel and the parts it is specialised for.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

import bouncy._compile

if sys.platform == "win32":
    pytest.skip("the places and the modes of files are those of POSIX", allow_module_level=True)

SOURCES = Path(bouncy._compile.__file__).parent
LEFT_OUT = ("NUMBA_", "PYTHON", "XDG_")  # settings that would decide in place of the test

PARTS = """
    from typing import NamedTuple
    import numpy as np
    from bouncy._compile import helper
    from bouncy._dispatch import generic, implements

    class Scale(NamedTuple):
        values: np.ndarray

    class Shift(NamedTuple):
        values: np.ndarray

    @generic
    def apply(part, x):
        pass

    @implements(apply, Scale)
    def _scale(part, x):
        return factor() * part.values[0] * x

    @implements(apply, Shift)
    def _shift(part, x):
        return part.values[0] + x

    @helper
    def factor():
        return 2.0
"""

LOOP = """
    from bouncy._compile import kernel
    from bouncy.parts import apply

    @kernel
    def total(part, n):
        result = 0.0
        for i in range(n):
            result += apply(part, i)
        return result

    @kernel
    def twice(x):
        return 2 * x
"""

# Prints what the kernel returned (6 and 7.5 as the parts stand), what the cache did and what was warned about.
PROGRAM = """
    import json, warnings
    import numpy as np
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        from bouncy.loop import total
        from bouncy.parts import Scale, Shift
        results = [total(kind(np.array([v])), 3) for kind, v in ((Scale, 1.0), (Shift, 1.5))]
    print(json.dumps({
        "results": results,
        "hits": sum(total.stats.cache_hits.values()),
        "misses": sum(total.stats.cache_misses.values()),
        "path": total.stats.cache_path,
        "warnings": [f"{w.category.__name__}: {w.message}" for w in caught],
    }))
"""


class Tree:
    """A package tree under a private directory, with its own home, and programs run on it."""

    def __init__(self, root: Path) -> None:
        self.package = root / "src" / "bouncy"
        self.home = root / "home"
        self.home.mkdir(mode=0o700)
        self.package.mkdir(parents=True, mode=0o755)
        for name in ("_compile.py", "_dispatch.py", "_inlining.py"):
            shutil.copy(SOURCES / name, self.package / name)
        self.write("__init__", "")
        self.write("parts", PARTS)
        self.write("loop", LOOP)

    def write(self, module: str, text: str) -> None:
        (self.package / f"{module}.py").write_text(textwrap.dedent(text))

    def edit(self, module: str, old: str, new: str) -> None:
        path = self.package / f"{module}.py"
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    def start(self, program: str = PROGRAM, umask: int = 0o022, **environment: str) -> subprocess.Popen[str]:
        """Start a program on this tree, with the settings of the caller left out."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(LEFT_OUT)}
        paths = {"PYTHONPATH": str(self.package.parent), "HOME": str(self.home)}
        paths["PYTHONDONTWRITEBYTECODE"] = "1"  # Python's own cache trusts the size and the second of an edit
        return subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(program)],
            env={**inherited, **paths, **environment},
            umask=umask,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, program: str = PROGRAM, umask: int = 0o022, **environment: str) -> dict[str, Any]:
        return finish(self.start(program, umask, **environment))

    def block(self) -> None:
        """Leave no place to write to, even for root: a file where a directory is needed, and a home below a file."""
        (self.package / "__pycache__").write_text("")
        self.home.rmdir()
        self.home.write_text("")

    def entries(self) -> list[Path]:
        """Return all files of compiled code below the tree's root."""
        return sorted(self.package.parent.parent.rglob("*.nbc"))


def finish(process: subprocess.Popen[str]) -> dict[str, Any]:
    output, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    answer: dict[str, Any] = json.loads(output.splitlines()[-1])
    return answer


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def test_second_process_compiles_nothing(tree: Tree) -> None:
    """Catches a cache that is never hit, above all for arguments that are named tuples of the package."""
    first, second = tree.run(), tree.run()
    assert (first["hits"], first["misses"]) == (0, 2)
    assert (second["hits"], second["misses"]) == (2, 0)
    assert first["results"] == second["results"] == [6.0, 7.5]
    assert first["warnings"] == second["warnings"] == []
    assert second["path"] == str(tree.package / "__pycache__")


@pytest.mark.slow
def test_edit_in_another_file_is_seen(tree: Tree) -> None:
    """Catches a stale kernel: numba's own stamp covers only the file of the kernel, not the part it inlines.

    The size and the time of the edited file stay the same, and a class named in an old entry is gone.
    """
    tree.run()
    path = tree.package / "parts.py"
    before = path.stat()
    tree.edit("parts", "return 2.0", "return 5.0")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    edited = tree.run()
    assert edited["results"] == [15.0, 7.5]
    assert (edited["hits"], edited["misses"]) == (0, 2)
    tree.edit("parts", "Shift", "Move")
    renamed = tree.run(PROGRAM.replace("Shift", "Move"))
    assert renamed["results"] == [15.0, 7.5]
    assert renamed["warnings"] == []
    assert tree.run(PROGRAM.replace("Shift", "Move"))["misses"] == 0


@pytest.mark.slow
def test_edit_of_a_module_without_compiled_code_recompiles_nothing(tree: Tree) -> None:
    """Catches a stamp that covers too much, and one that misses what a part imports."""
    tree.write("plots", "COLOUR = 'blue'")
    tree.write("sizes", "FACTOR = 2.0")
    tree.edit("parts", "return 2.0", "return FACTOR")
    tree.edit("parts", "import numpy as np", "import numpy as np\nfrom bouncy.sizes import FACTOR")
    assert tree.run()["results"] == [6.0, 7.5]
    tree.edit("plots", "blue", "red")
    assert tree.run()["misses"] == 0
    tree.edit("sizes", "2.0", "5.0")
    edited = tree.run()
    assert edited["results"] == [15.0, 7.5]
    assert edited["misses"] == 2


@pytest.mark.slow
def test_edit_while_a_process_runs_is_not_credited_to_old_code(tree: Tree) -> None:
    """Catches a stamp taken at the first call: old code in memory would be kept under the stamp of new sources."""
    meddling = f"""
        import pathlib
        import bouncy.loop
        path = pathlib.Path({str(tree.package / "parts.py")!r})
        path.write_text(path.read_text().replace("return 2.0", "return 5.0"))
    """
    tree.run(textwrap.dedent(meddling) + textwrap.dedent(PROGRAM))
    later = tree.run()
    assert later["results"] == [15.0, 7.5]
    assert later["hits"] == 0


@pytest.mark.slow
def test_two_processes_at_once_do_not_mix_their_entries(tree: Tree) -> None:
    """Catches two signatures under one file name: numba numbers its files, and the last writer wins."""
    pairs = ("((Scale, 1.0),)", "((Shift, 1.5),)")
    running = [tree.start(PROGRAM.replace("((Scale, 1.0), (Shift, 1.5))", pair)) for pair in pairs]
    assert [finish(process)["results"] for process in running] == [[6.0], [7.5]]
    both = tree.run()
    assert both["results"] == [6.0, 7.5]
    assert both["misses"] == 0


@pytest.mark.slow
def test_unwritable_runs_uncached_with_one_warning(tree: Tree) -> None:
    """Catches a crash, silence or a flood of warnings on a read-only installation."""
    tree.block()
    for _ in range(2):
        answer = tree.run()
        assert answer["results"] == [6.0, 7.5]
        assert (answer["hits"], answer["misses"], answer["path"]) == (0, 2, None)
        (warning,) = answer["warnings"]
        assert warning.startswith("CacheWarning:")
        assert "NUMBA_CACHE_DIR" in warning
        assert str(tree.package / "__pycache__") in warning
    assert tree.entries() == []


@pytest.mark.slow
@pytest.mark.parametrize("mode", [0o777, *(pytest.param(m, marks=pytest.mark.slow) for m in (0o1777, 0o770))])
def test_directory_open_to_others_is_not_used(tree: Tree, tmp_path: Path, mode: int) -> None:
    """Catches compiled code (pickles) read from or written to where somebody else can put files."""
    tree.block()
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(mode)
    answer = tree.run(NUMBA_CACHE_DIR=str(shared))
    assert answer["results"] == [6.0, 7.5]
    assert answer["path"] is None
    assert len(answer["warnings"]) == 1
    assert str(shared) in answer["warnings"][0]
    assert tree.entries() == []


@pytest.mark.slow
def test_order_of_directories(tree: Tree, tmp_path: Path) -> None:
    """Catches a private directory passed over, and a tree open to others used although the user's own cache is not."""
    asked_for = tmp_path / "asked" / "for"
    assert tree.run(NUMBA_CACHE_DIR=str(asked_for))["path"].startswith(str(asked_for))
    (tree.package / "__pycache__").mkdir()
    (tree.package / "__pycache__").chmod(0o777)
    first, second = tree.run(), tree.run()
    assert first["path"].startswith(str(tree.home))
    assert first["warnings"] == []
    assert second["misses"] == 0
    assert not list((tree.package / "__pycache__").glob("*.nbc"))


@pytest.mark.slow
def test_umask_cannot_open_the_cache(tree: Tree) -> None:
    """Catches directories and files that others can write to because the process has an open umask."""
    answer = tree.run(umask=0)
    assert tree.run(umask=0)["misses"] == 0
    made = [Path(answer["path"]), *tree.entries()]
    assert len(made) == 3
    assert not any(path.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH) for path in made)


@pytest.mark.slow
def test_entry_that_others_can_write_to_or_damaged_is_not_loaded(tree: Tree) -> None:
    """Catches trust in a single file: made writable, cut short, or with one bit changed."""
    tree.run()
    opened, damaged = tree.entries()
    opened.chmod(0o666)
    content = bytearray(damaged.read_bytes())
    content[len(content) // 2] ^= 1
    damaged.write_bytes(content)
    answer = tree.run()
    assert answer["results"] == [6.0, 7.5]
    assert (answer["hits"], answer["misses"]) == (0, 2)
    for entry in tree.entries():
        entry.write_bytes(entry.read_bytes()[:100])
    assert tree.run()["misses"] == 2
    assert tree.run()["misses"] == 0


# A kernel and a part defined outside the package.
OUTSIDE = (
    LOOP
    + """
    from typing import NamedTuple
    from bouncy._dispatch import implements
    class Power(NamedTuple):
        exponent: int
    @implements(apply, Power)
    def _power(part, x):
        return float(x) ** part.exponent
"""
)


@pytest.mark.slow
def test_code_of_others_is_not_kept(tree: Tree) -> None:
    """Catches the stale answers that a part or a kernel defined outside the package would give after an edit there."""
    tree.run()
    kept = tree.entries()
    (tree.package.parent / "outside.py").write_text(textwrap.dedent(OUTSIDE))
    answer = tree.run("""
        import json
        import outside, bouncy.loop
        part = outside.Power(2)
        print(json.dumps({"results": [bouncy.loop.total(part, 3), outside.twice(3)]}))
    """)
    assert answer["results"] == [5.0, 6]
    assert tree.entries() == kept


@pytest.mark.slow
def test_kernels_of_another_package_are_kept_on_request_and_never_stale(tree: Tree) -> None:
    """Catches helpers compiled in every process, stale after an edit of their own, or in the stamps of the package."""
    tree.run()
    helpers = tree.package.parent / "helpers"
    helpers.mkdir()
    (helpers / "powers.py").write_text(textwrap.dedent(OUTSIDE))
    program = f"""
        import json, pathlib
        from bouncy._compile import keep_kernels_of
        keep_kernels_of("helpers", pathlib.Path({str(helpers)!r}))
        import bouncy.loop
        from helpers.powers import Power, total
        part = Power(2)
        print(json.dumps({{
            "results": [total(part, 3), bouncy.loop.total(part, 3)],
            "hits": [sum(loop.stats.cache_hits.values()) for loop in (total, bouncy.loop.total)],
        }}))
    """
    assert [tree.run(program) for _ in range(2)] == [
        {"results": [5.0, 5.0], "hits": [0, 0]},
        {"results": [5.0, 5.0], "hits": [1, 0]},
    ]
    (helpers / "powers.py").write_text(textwrap.dedent(OUTSIDE).replace("float(x)", "2.0"))
    assert tree.run(program) == {"results": [12.0, 12.0], "hits": [0, 0]}
    assert tree.run()["misses"] == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "runs_before"),
    [
        ("del numba.core.compiler.CompileResult._reduce", 0),
        pytest.param("del numba.core.compiler.CompileResult._rebuild", 1, marks=pytest.mark.slow),
        ("numba.njit = lambda **flags: functools.partial", 0),
    ],
)
def test_unknown_numba_runs_uncached_with_one_warning(tree: Tree, change: str, runs_before: int) -> None:
    """Catches a future numba, whose private parts have moved, breaking the package instead of slowing it down."""
    for _ in range(runs_before):
        tree.run()
    prelude = f"""
        import functools, types, numba.core.compiler
        {change}
        nothing = types.SimpleNamespace(cache_hits={{}}, cache_misses={{}}, cache_path=None)
    """
    program = textwrap.dedent(PROGRAM).replace("total.stats", "getattr(total, 'stats', nothing)")
    answer = tree.run(textwrap.dedent(prelude) + program)
    assert answer["results"] == [6.0, 7.5]
    (warning,) = answer["warnings"]
    assert warning.startswith("CacheWarning:")
