"""Compilation of kernels: numba's passes, without work that is repeated or unnecessary.

numba optimises every function and turns it into machine code by itself, and does so again as part of each function
that calls it. Nothing but kernels calls a helper here, so `HelperCompiler` stops at LLVM's representation of it. A
kernel links all the helpers that it needs, directly or through others; they are optimised and compiled once, with it.

numba finds out which implementation of `+` takes two given types by trying all it has, and does so again at each `+`.
Here it remembers the answer.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numba._dynfunc import make_function
from numba.core import types
from numba.core.cgutils import do_boundscheck
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.lowering import Lower
from numba.core.postproc import PostProcessor, VariableLifetime
from numba.core.targetconfig import ConfigStack
from numba.core.transforms import canonicalize_cfg
from numba.core.typed_passes import NativeLowering, NopythonRewrites
from numba.core.untyped_passes import (
    InlineClosureLikes,
    InlineInlinables,
    LiteralPropagationSubPipelinePass,
    LiteralUnroll,
    MakeFunctionToJitFunction,
    WithLifting,
)
from numba.np.arrayobj import load_item, store_item

SKIPPED = frozenset(
    {
        InlineClosureLikes,
        InlineInlinables,
        LiteralPropagationSubPipelinePass,
        LiteralUnroll,
        MakeFunctionToJitFunction,
        NopythonRewrites,
        WithLifting,
    }
)
"""Passes that find nothing to do in a helper: it has no closures, `with` blocks or expressions of whole arrays."""


class HelperLibrary(JITCodeLibrary):
    """A helper that is not optimised yet, and the libraries of what it calls."""

    def add_llvm_module(self, ll_module: Any) -> None:
        """Add a module. Its variables become registers now, before inlining multiplies them."""
        ll_module.data_layout = self._codegen._data_layout
        passes, builder = self._codegen._function_pass_manager()
        for function in ll_module.functions:
            if not function.is_declaration:
                passes.run(function, builder)
        self._final_module.link_in(ll_module)

    def finalize(self) -> None:
        """Leave the rest to the kernels that link this library."""
        self._raise_if_finalized()
        for library in self._linking_libraries:
            self._reload_init.update(library._reload_init)
        self._finalized = True

    def _get_module_for_linking(self) -> Any:
        """Module of the helper with all that it calls, directly or through others."""
        if self._shared_module is None:
            self._ensure_finalized()
            module = self._final_module.clone()
            seen: set[Any] = {self}
            remaining = list(self._linking_libraries)
            while remaining:
                library = remaining.pop()
                if library not in seen:
                    seen.add(library)
                    if isinstance(library, HelperLibrary):
                        remaining += library._linking_libraries
                        module.link_in(library._final_module, preserve=True)
                    else:
                        module.link_in(library._get_module_for_linking(), preserve=True)
            for function in module.functions:
                if not function.is_declaration:
                    function.linkage = "linkonce_odr"
            self._shared_module = module
        return self._shared_module


UNCALLABLE = ctypes.cast(ctypes.pythonapi.PyObject_Call, ctypes.c_void_p).value
"""Address of a function that raises a TypeError for the object that it is given."""

_resolved: dict[Any, Any] = {}
"""Signatures of builtin functions, by function, types of arguments and compiler flags."""


@contextmanager
def _hastened() -> Iterator[None]:
    """Resolve each call of a builtin function once, analyse only what is needed, and collect no garbage meanwhile.

    Each step of numba finds out anew how long variables live, which only the last one needs.
    """
    if "get_call_type" in vars(types.Function):
        yield
        return
    resolve, analyse = types.Function.get_call_type, PostProcessor.run
    collecting = gc.isenabled()
    latest: tuple[Any, str] = None, ""

    def resolve_once(function: Any, context: Any, arguments: Any, named: Any) -> Any:
        nonlocal latest
        flags = ConfigStack.top_or_none()
        if flags is not latest[0]:
            latest = flags, flags.summary() if flags else ""
        key = function, context, tuple(arguments), tuple(named.items()), latest[1]
        if key not in _resolved:
            _resolved[key] = resolve(function, context, arguments, named)
        return _resolved[key]

    def analyse_late(processor: Any, emit_dels: bool = False, extend_lifetimes: bool = False) -> None:
        if emit_dels or processor.func_ir.is_generator:
            analyse(processor, emit_dels, extend_lifetimes)
        else:
            processor.func_ir.blocks = canonicalize_cfg(processor.func_ir.blocks)
            processor.func_ir.variable_lifetime = VariableLifetime(processor.func_ir.blocks)  # computed when read

    types.Function.get_call_type = resolve_once  # type: ignore[assignment, method-assign]
    PostProcessor.run = analyse_late  # type: ignore[assignment, method-assign]
    gc.disable()
    try:
        yield
    finally:
        del types.Function.get_call_type
        PostProcessor.run = analyse  # type: ignore[method-assign]
        if collecting:
            gc.enable()


class ShortLower(Lower):
    """Lowering that accesses elements of contiguous arrays of numbers in a few instructions, where numba takes dozens.

    An index below 0 counts from the end only where it is a constant: numba asks at each access, which takes longer than
    the access. With `NUMBA_BOUNDSCHECK=1`, any other index below 0 is an error.
    """

    def lower_getitem(self, resty: Any, expr: Any, value: Any, index: Any, signature: Any) -> Any:
        """Lower `value[index]`."""
        place = self._find_place(value, index)
        if place is None:
            return super().lower_getitem(resty, expr, value, index, signature)
        array = self.typeof(value.name)
        item = load_item(self.context, self.builder, array, place)
        return self.context.cast(self.builder, item, array.dtype, resty)

    def lower_setitem(self, target_var: Any, index_var: Any, value_var: Any, signature: Any) -> Any:
        """Lower `target_var[index_var] = value_var`."""
        place = self._find_place(target_var, index_var)
        if place is None:
            return super().lower_setitem(target_var, index_var, value_var, signature)
        array, item = self.typeof(target_var.name), self.loadvar(value_var.name)
        item = self.context.cast(self.builder, item, self.typeof(value_var.name), array.dtype)
        return store_item(self.context, self.builder, array, item, place)

    def _find_place(self, array_var: Any, index_var: Any) -> Any:
        """Address of an element, None if something else is indexed, or is indexed by something else."""
        array, index = self.typeof(array_var.name), self.typeof(index_var.name)
        axes: Any = tuple(index) if isinstance(index, types.BaseTuple) else (index,)  # type: ignore[arg-type]
        plain = isinstance(array, types.Array) and array.layout == "C" and len(axes) == array.ndim
        if not plain or not isinstance(array.dtype, types.Number | types.Boolean):
            return None
        if not all(isinstance(axis, types.Integer) for axis in axes):
            return None
        builder, model = self.builder, self.context.data_model_manager[array]
        value, indices = self.loadvar(array_var.name), self.loadvar(index_var.name)
        place = None
        for i, axis in enumerate(axes):
            j = builder.extract_value(indices, i) if isinstance(index, types.BaseTuple) else indices
            j = self.context.cast(builder, j, axis, types.intp if axis.signed else types.uintp)
            size = builder.extract_value(value, [model.get_field_position("shape"), i])
            if isinstance(axis, types.IntegerLiteral) and axis.literal_value < 0:
                j = builder.add(size, j)
            if self.context.enable_boundscheck:
                do_boundscheck(self.context, builder, j, size, i)
            place = j if place is None else builder.add(builder.mul(place, size), j)
        return builder.gep(builder.extract_value(value, model.get_field_position("data")), [place])


@register_pass(mutates_CFG=True, analysis_only=False)
class KernelLowering(NativeLowering):
    """Lowering of a kernel, which is optimised and compiled."""

    _name = "arbora_kernel_lowering"
    lowering_class = ShortLower


@register_pass(mutates_CFG=True, analysis_only=False)
class HelperLowering(NativeLowering):
    """Lowering into a `HelperLibrary`, without an executable function."""

    _name = "arbora_helper_lowering"
    lowering_class = ShortLower

    def run_pass(self, state: Any) -> bool:
        """Lower a helper, whose entry only serves as a key: if Python calls it, `PyObject_Call` says that it cannot."""
        state.library = HelperLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.flags.no_compile = True
        super().run_pass(state)
        name, module = state.func_id.func_name, state.func_id.module
        entry = make_function(module, name, "", UNCALLABLE, state.cr.env, (state.library,))
        state.targetctx.insert_user_function(entry, state.cr.fndesc, [state.library])
        state.cr = state.cr._replace(cfunc=entry)
        return True


class KernelCompiler(CompilerBase):
    """Compiler of what Python calls, for `@numba.njit(pipeline_class=KernelCompiler)`."""

    skipped: frozenset[type] = frozenset()
    lowering: type[NativeLowering] = KernelLowering

    def define_pipelines(self) -> list[PassManager]:
        """Numba's own passes, with some replaced."""
        passes = PassManager(self.lowering.__name__)
        for step, text in DefaultPassBuilder.define_nopython_pipeline(self.state).passes:
            if step not in self.skipped:
                passes.add_pass(self.lowering if step is NativeLowering else step, text)
        passes.finalize()
        return [passes]

    def _compile_core(self) -> Any:
        with global_compiler_lock, _hastened():
            return super()._compile_core()


class HelperCompiler(KernelCompiler):
    """Compiler of what only kernels call."""

    skipped = SKIPPED
    lowering = HelperLowering
