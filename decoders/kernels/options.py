"""Options of numba kernels, for `@numba.njit(**KERNEL)` and its like.

| options      | a kernel that                                             |
|--------------|-----------------------------------------------------------|
| `KERNEL`     | Python calls; may allocate; cached on disk                |
| `FILLING`    | the same, but it must not allocate; compiles faster       |
| `HELPER`     | other kernels call in their loops; inlined                |
| `CALLED`     | other kernels call; inlined where LLVM finds that it pays |
| `ALLOCATING` | other kernels call to make arrays                         |

All release the GIL, so that `threads` can run them side by side. Python cannot call helpers: they have no machine code
outside of the kernels that call them (`compiler`). A test calls one through a kernel of its own.
"""

from typing import Any

from arbora.decoders.kernels.cache import PackageLocator
from arbora.decoders.kernels.compiler import HelperCompiler, KernelCompiler

KERNEL: dict[str, Any] = {
    "cache": PackageLocator.folder is not None,
    "nogil": True,
    "pipeline_class": KernelCompiler,
    "no_cfunc_wrapper": True,  # nothing calls kernels by their address
}

FILLING: dict[str, Any] = {**KERNEL, "_nrt": False}
"""Without reference counting, which counts every array of a tuple such as `Layout` whenever the tuple gets a name."""

CALLED: dict[str, Any] = {
    "nogil": True,
    "pipeline_class": HelperCompiler,
    "no_cfunc_wrapper": True,
    "no_cpython_wrapper": True,
    "_nrt": False,
}
"""It must not allocate: `_nrt` switches off reference counting, which costs an atomic instruction per array at each
call, often more than the work of the helper itself."""

ALLOCATING: dict[str, Any] = {**CALLED, "_nrt": True}

HELPER: dict[str, Any] = {**CALLED, "forceinline": True}
