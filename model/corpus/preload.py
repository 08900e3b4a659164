"""Module that is imported by the process from which workers are forked, so that they share the memory of the model."""

import gc
import os

from arbora.model.corpus.shard import load_on_cpu

MODEL = "ARBORA_PRELOADED_MODEL"
"""Environment variable with the digest and the path of the model; without it, workers share only the modules."""

if MODEL in os.environ:
    try:
        digest, _, model = os.environ[MODEL].partition(":")
        load_on_cpu(model, digest)
    except Exception:  # each worker will report the error
        load_on_cpu.cache_clear()
gc.freeze()  # collecting garbage would write to shared memory
