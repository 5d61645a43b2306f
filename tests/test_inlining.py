"""What is compiled once: inlined functions make no machine code of their own, and loops hold one copy of each call."""

from __future__ import annotations

import ast
from pathlib import Path

from numba.core.codegen import JITCPUCodegen

import bouncy
from bouncy._compile import helper, without_memory

SOURCES = Path(bouncy.__file__).parent
# Decorators of functions that numba compiles.
COMPILED = {"helper", "kernel", "implements", "generic", "without_memory"}


def test_inlined_functions_are_not_handed_to_the_engine(monkeypatch):
    """Catches machine code of inlined functions, which takes longer to make than that of the loops."""
    names = []
    add_module = JITCPUCodegen._add_module

    def spy(codegen, module):
        names.append(module.name.rpartition(".")[2])
        return add_module(codegen, module)

    monkeypatch.setattr(JITCPUCodegen, "_add_module", spy)

    @helper
    def inner(x):
        return x + 1

    @without_memory
    def outer(x):
        return inner(x)

    assert outer(1) == 2
    assert "outer" in names
    assert "inner" not in names


def _is_compiled(function):
    roots = (item.func if isinstance(item, ast.Call) else item for item in function.decorator_list)
    return any(isinstance(root, ast.Name) and root.id in COMPILED for root in roots)


def test_no_loop_moves_in_its_condition():
    """Catches a sweep in the condition of `while`, of which Python, and so numba, makes two copies."""
    found = []
    for file in sorted(SOURCES.rglob("*.py")):
        for function in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(function, ast.FunctionDef) and _is_compiled(function):
                loops = [node for node in ast.walk(function) if isinstance(node, ast.While)]
                calls = [node for loop in loops for node in ast.walk(loop.test) if isinstance(node, ast.Call)]
                found += [(file.name, function.name, ast.unparse(call)) for call in calls]
    # Functions that only look something up.
    assert [place for place in found if not place[2].startswith(("abs(", "len(", "failed(", "np.uint64("))] == []
