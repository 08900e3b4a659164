"""Counters of the service, in the text format of Prometheus."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from threading import Lock

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
WORDS = (1.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 2000.0, 4000.0)

HELP = {
    "arbora_requests_total": "Requests that were answered, by path and status.",
    "arbora_request_seconds": "Seconds from a request to the end of its answer.",
    "arbora_words_total": "Words that were parsed, by model.",
    "arbora_batch_words": "Words of the batches.",
    "arbora_decoding_seconds_total": "Seconds of decoding and labelling, by decoder.",
    "arbora_scoring_seconds_total": "Seconds of scoring.",
    "arbora_rejected_total": "Requests that were refused because the queue was full.",
    "arbora_dropped_total": "Requests whose client went away before the answer.",
    "arbora_queue_words": "Words that are accepted and not yet parsed.",
}


class Metrics:
    """Counts and distributions; may be called from any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._counts: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        self._buckets: dict[str, dict[str, list[int]]] = defaultdict(dict)
        self._limits = {"arbora_request_seconds": SECONDS, "arbora_batch_words": WORDS}

    def add(self, name: str, value: float = 1, **labels: str) -> None:
        """Add to a counter."""
        with self._lock:
            self._counts[name][_labels(labels)] += value

    def observe(self, name: str, value: float, **labels: str) -> None:
        """Count a value in a distribution."""
        limits = self._limits[name]
        with self._lock:
            buckets = self._buckets[name].setdefault(_labels(labels), [0] * (len(limits) + 1))
            buckets[bisect_left(limits, value)] += 1
            self._counts[f"{name}_sum"][_labels(labels)] += value

    def total(self, name: str) -> float:
        """A counter, summed over its labels."""
        with self._lock:
            return sum(self._counts[name].values())

    def text(self, **gauges: float) -> str:
        """Everything, in the format of Prometheus.

        Args:
            gauges: values of this moment, by name.
        """
        lines = []
        with self._lock:
            for name, what in HELP.items():
                kind = "gauge" if name in gauges else "histogram" if name in self._limits else "counter"
                lines += [f"# HELP {name} {what}", f"# TYPE {name} {kind}"]
                if name in gauges:
                    lines.append(f"{name} {gauges[name]:g}")
                for labels, value in self._counts[name].items():
                    lines.append(f"{name}{_braced(labels)} {value:.12g}")
                for labels, buckets in self._buckets[name].items():
                    below = 0
                    for limit, count in zip((*self._limits[name], "+Inf"), buckets, strict=True):
                        below += count
                        bucket = f'le="{limit}"'
                        lines.append(f"{name}_bucket{_braced(labels, bucket)} {below}")
                    lines.append(f"{name}_sum{_braced(labels)} {self._counts[f'{name}_sum'][labels]:.12g}")
                    lines.append(f"{name}_count{_braced(labels)} {below}")
        return "\n".join(lines) + "\n"


def _labels(labels: dict[str, str]) -> str:
    escaped = (
        (name, value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")) for name, value in labels.items()
    )
    return ",".join(f'{name}="{value}"' for name, value in escaped)


def _braced(*labels: str) -> str:
    inside = ",".join(filter(None, labels))
    return f"{{{inside}}}" if inside else ""
