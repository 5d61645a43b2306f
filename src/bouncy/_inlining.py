"""Compile what is inlined for its callers alone, which takes numba half of the time.

numba optimises every function, with all that it calls, and makes machine code of it, even where it is only inlined:
what lies at the bottom of a loop is optimised again with each function above it. Here a function that is inlined
is handed on as it is, and optimised once, as a part of the loop.
"""

from __future__ import annotations

import inspect
from typing import Any

from numba.core.codegen import CPUCodegen, JITCodeLibrary
from numba.core.compiler import Compiler

# Until numba 0.61 passes are set up once for all functions of a module.
_ONE_SETUP = "llvm_module" in inspect.signature(CPUCodegen._function_pass_manager).parameters


class _InlinedLibrary(JITCodeLibrary):
    """Code that is linked into that of its callers, and is optimised there."""

    def _optimize_functions(self, ll_module: Any) -> None:
        """Run numba's passes over functions, but those that are only declared where passes are set up for each."""
        if _ONE_SETUP:
            super()._optimize_functions(ll_module)
            return
        ll_module.data_layout = self._codegen._data_layout
        for function in ll_module.functions:
            if not function.is_declaration:
                passes, builder = self._codegen._function_pass_manager()
                passes.run(function, builder)

    def _optimize_final_module(self) -> None:
        """Do nothing: the callers optimise it."""

    def _finalize_final_module(self) -> None:
        """Hand nothing to numba's engine, which would make machine code of it together with that of the next loop."""
        self._finalized = True


class _InlinedCompiler(Compiler):
    """numba's compiler, up to the point where code can be linked into that of a caller."""

    def define_pipelines(self) -> Any:
        state = self.state
        state.library = _InlinedLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.flags.no_compile = True
        state.flags.no_cfunc_wrapper = True
        return super().define_pipelines()

    def _compile_core(self) -> Any:
        result = super()._compile_core()
        entry: Any = [].append  # numba knows a function by its entry, a builtin of its own that Python could call
        self.state.targetctx.insert_user_function(entry, result.fndesc, [result.library])
        return result._replace(entry_point=entry)


# Options of numba for functions that are inlined. Inlining is forced: a part of a sampler is a tuple of many arrays, so
# that handing its words over on the stack costs more than most helpers do.
INLINED: Any = {"forceinline": True, "pipeline_class": _InlinedCompiler}
