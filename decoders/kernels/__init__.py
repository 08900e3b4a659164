"""Code that all numba kernels share: options, threads, bitsets."""
