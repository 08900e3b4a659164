"""What all numba kernels share: options, threads, bitsets."""
