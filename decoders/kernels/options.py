"""Options of numba kernels, for `@numba.njit(**KERNEL)` and its like.

| options      | a kernel that                                             |
|--------------|-----------------------------------------------------------|
| `KERNEL`     | Python calls; may allocate; cached on disk                |
| `HELPER`     | other kernels call in their loops; inlined                |
| `CALLED`     | other kernels call; inlined where LLVM finds that it pays |
| `ALLOCATING` | the same, and it may allocate                             |

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
