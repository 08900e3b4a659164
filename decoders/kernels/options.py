"""Options of numba kernels, for `@numba.njit(**KERNEL)` and its like.

| options   | a kernel that                                                             | called from Python |
|-----------|---------------------------------------------------------------------------|--------------------|
| `KERNEL`  | Python calls; may allocate                                                | yes                |
| `HELPER`  | other kernels call in their loops; inlined                                | in tests           |
| `INNER`   | the same, with large tuples among its arguments                           | no                 |
| `CALLED`  | other kernels call, too long to be inlined everywhere                     | no                 |
| `INLINED` | becomes part of the source of the one kernel that calls it                | no                 |

All release the GIL, so that `threads` can run them side by side, and all but `INLINED` are cached on disk.
"""

from typing import Any

from arbora.decoders.kernels.cache import PackageLocator

KERNEL: dict[str, Any] = {"cache": PackageLocator.folder is not None, "nogil": True}

HELPER: dict[str, Any] = {**KERNEL, "forceinline": True, "_nrt": False}
"""A helper must not allocate: `_nrt` switches off reference counting, which costs an atomic instruction per array at
each call, often more than the work of the helper itself."""

INNER: dict[str, Any] = {**HELPER, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
"""Without wrappers for Python and C: to unpack a tuple such as `Layout` takes longer to compile than most helpers."""

CALLED: dict[str, Any] = {**INNER, "forceinline": False}
"""Must not allocate either. Inlined at each call, such a kernel would take long to compile."""

INLINED: dict[str, Any] = {"inline": "always"}
"""Inlined before types are known. Every level of calls compiles all that is below it once more, so that steps of one
long kernel are best made part of it, and only the innermost kernels stand by themselves."""
