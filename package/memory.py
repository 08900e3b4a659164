"""Errors of memory, which libraries report in different ways."""

import re

_MESSAGES = re.compile(r"allocate memory|out of memory|ALLOC_FAILED", re.I)
"""Parts of messages: of torch on a CPU; on CUDA, MPS and other devices; of CUDA's libraries."""


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error says that memory, of the host or of a device, is used up."""
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and bool(_MESSAGES.search(str(error))))
