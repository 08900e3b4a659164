"""How much does the HTTP service cost, and how long do requests wait?

    python benchmarks/service.py MODEL FILE.conllu [--sentences 2000] [--seconds 8] [--loads 0.25,0.5,0.75]

Words per second of the service, called from this process over loopback by several clients that send a few sentences
each, next to `arbora predict` on the same sentences: words per second of wall-clock time and of CPU time, in runs that
alternate. Then latency percentiles when the same requests arrive at random times, at shares of that throughput. With
`--accidents`, also kills in the middle of requests, and a request of a million words.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import queue
import random
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from arbora.data.conll import Sentence, read_conll

ARBORA = [sys.executable, "-m", "arbora.cli"]
HEADERS = {"content-type": "application/json", "accept": "text/x-conllu"}


class Service:
    """A service in another process."""

    def __init__(self, model: str, *options: str) -> None:
        command = [*ARBORA, "serve", model, *(options if "--port" in options else ("--port", "0", *options))]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self.process.stdout is not None
        first = self.process.stdout.readline()
        self.port = int(first.split("/")[2].rsplit(":", 1)[1])

    def cpu_seconds(self) -> float:
        """CPU time that it took so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)

    def stop(self) -> int:
        """Ask it to end, and return its code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


@contextmanager
def running(model: str, *options: str) -> Iterator[Service]:
    service = Service(model, *options)
    try:
        yield service
    finally:
        if service.process.poll() is None:
            service.stop()


def post(connection: http.client.HTTPConnection, body: bytes) -> int:
    """Send a request, read the answer to its end, and return the status."""
    connection.request("POST", "/v1/parse", body, HEADERS)
    answer = connection.getresponse()
    answer.read()
    return answer.status


def bodies_of(sentences: list[Sentence], size: int) -> list[bytes]:
    """Requests with some sentences each."""
    groups = [sentences[i : i + size] for i in range(0, len(sentences), size)]
    return [json.dumps({"sentences": [sentence.form for sentence in group]}).encode() for group in groups]


def saturate(service: Service, bodies: list[bytes], clients: int) -> tuple[float, float]:
    """Seconds of wall-clock and of CPU time of the service for all requests, sent by clients that do not pause."""
    waiting: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    for body in bodies:
        waiting.put(body)

    def client() -> None:
        connection = service.connect()
        while True:
            try:
                body = waiting.get_nowait()
            except queue.Empty:
                return
            assert post(connection, body) == 200

    threads = [threading.Thread(target=client) for _ in range(clients)]
    started, cpu = time.perf_counter(), service.cpu_seconds()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - started, service.cpu_seconds() - cpu


def predict(model: str, file: Path) -> tuple[float, float]:
    """Seconds of wall-clock and of CPU time of `arbora predict` for a file."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([*ARBORA, "predict", model, str(file), "-o", os.devnull, "--quiet", "--scores"], check=True)
    seconds, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def latencies(service: Service, bodies: list[bytes], rate: float, seconds: float) -> tuple[list[float], int]:
    """Milliseconds of requests that arrive at random times at a given rate, and how many failed."""
    rng, found, failed, threads = random.Random(0), list[float](), list[int](), list[threading.Thread]()

    def client(body: bytes, due: float) -> None:
        if post(service.connect(), body) == 200:
            found.append(1000 * (time.perf_counter() - due))
        else:
            failed.append(1)

    due = time.perf_counter()
    end = due + seconds
    while due < end:
        due += rng.expovariate(rate)
        time.sleep(max(0.0, due - time.perf_counter()))
        threads.append(threading.Thread(target=client, args=(rng.choice(bodies), due)))
        threads[-1].start()
    for thread in threads:
        thread.join()
    return found, len(failed)


def throughput(options: argparse.Namespace, sentences: list[Sentence]) -> float:
    """Print throughput, and return the service's words per second of wall-clock time."""
    words = sum(map(len, sentences))
    few = sentences[:20]
    with tempfile.TemporaryDirectory() as folder:
        file, small = Path(folder, "text.conllu"), Path(folder, "few.conllu")
        for path, some in ((file, sentences), (small, few)):
            path.write_text(
                "".join(
                    Sentence.from_words(sentence.form).with_tree([0] * len(sentence), ["_"] * len(sentence))
                    for sentence in some
                )
            )
        rows: dict[str, list[tuple[float, float]]] = {"predict": [], "service": []}
        with running(options.model) as service:
            bodies = bodies_of(sentences, options.size)
            saturate(service, bodies[:20], options.clients)
            for _ in range(options.repeats):
                start = predict(options.model, small)  # mostly of starting
                whole = predict(options.model, file)
                rows["predict"].append((whole[0] - start[0], whole[1] - start[1]))
                rows["service"].append(saturate(service, bodies, options.clients))
    rates = {name: words / np.median(np.array(times), axis=0) for name, times in rows.items()}
    for name, (wall, cpu) in rates.items():
        print(f"{name}: {wall:,.0f} words per second, {cpu:,.0f} per CPU second")
    wall, cpu = rates["service"] / rates["predict"]
    print(
        f"service / predict: {wall:.2f} by wall-clock time, {cpu:.2f} by CPU time ({options.repeats} alternating runs)"
    )
    return float(rates["service"][0])


def loads(options: argparse.Namespace, sentences: list[Sentence], rate: float) -> None:
    """Print latency percentiles at shares of the throughput."""
    bodies = bodies_of(sentences, options.size)
    words = sum(map(len, sentences)) / len(bodies)
    with running(options.model) as service:
        saturate(service, bodies[:50], 4)
        for share in map(float, options.loads.split(",")):
            found, failed = latencies(service, bodies, share * rate / words, options.seconds)
            middle, high = np.percentile(found, [50, 99])
            print(
                f"load {share:.2f}: {len(found)} requests, median {middle:.0f} ms, 99 % {high:.0f} ms, {failed} failed"
            )


def kill_server(options: argparse.Namespace, bodies: list[bytes], kind: signal.Signals) -> None:
    """Print what becomes of requests when the service is told to end, or is killed, while it has them."""
    found = queue.SimpleQueue[int]()

    def client(service: Service, body: bytes) -> None:
        try:
            found.put(post(service.connect(), body))
        except (OSError, http.client.HTTPException):
            found.put(0)

    with running(options.model) as service:
        threads = [threading.Thread(target=client, args=(service, body)) for body in bodies[:30]]
        for thread in threads:
            thread.start()
        time.sleep(0.2)
        service.process.send_signal(kind)
        code = service.process.wait(60)
        for thread in threads:
            thread.join()
        statuses = [found.get() for _ in threads]
        print(f"{kind.name} during 30 requests: {statuses.count(200)} answered, {statuses.count(0)} lost, code {code}")
    if kind is signal.SIGKILL:
        started = time.perf_counter()
        with running(options.model, "--port", str(service.port)) as again:
            print(f"  the same port again: {post(again.connect(), bodies[0])} in {time.perf_counter() - started:.1f} s")


CLIENT = """
import http.client, sys
connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]))
connection.request("POST", "/v1/parse", sys.stdin.buffer.read(), {"content-type": "application/json"})
print("sent", flush=True)
connection.getresponse().read()
"""


def kill_client(options: argparse.Namespace, sentences: list[Sentence]) -> None:
    """Print what becomes of a long request whose client is killed, and how long a short one then waits."""
    many = (sentences * 100)[:4000]
    body = bodies_of(many, len(many))[0]
    with running(options.model) as service:
        short = bodies_of(sentences[:1], 1)[0]
        post(service.connect(), short)
        client = subprocess.Popen(
            [sys.executable, "-c", CLIENT, str(service.port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert client.stdin is not None
        assert client.stdout is not None
        client.stdin.write(body)
        client.stdin.close()
        client.stdout.readline()
        time.sleep(0.2)
        client.kill()
        client.wait()
        started = time.perf_counter()
        status = post(service.connect(), short)
        milliseconds = 1000 * (time.perf_counter() - started)
        time.sleep(2.0)
        before = service.cpu_seconds()
        time.sleep(1.0)
        idle = service.cpu_seconds() - before
        words = sum(map(len, many))
        print(
            f"SIGKILL of a client with {words:,} words: {figure(service, 'arbora_dropped_total')} dropped, "
            f"{figure(service, 'arbora_words_total')} words parsed, {figure(service, 'arbora_queue_words')} waiting"
        )
        print(f"  the next request: {status} in {milliseconds:.0f} ms; {idle:.2f} CPU seconds in a second, 2 s later")


def figure(service: Service, name: str) -> str:
    """A figure of `/metrics`."""
    connection = service.connect()
    connection.request("GET", "/metrics")
    lines = connection.getresponse().read().decode().splitlines()
    return next((line.split()[-1] for line in lines if line.startswith(name)), "0")


def million(options: argparse.Namespace, sentences: list[Sentence]) -> None:
    """Print what becomes of a request of a million words, by default and if it is allowed."""
    words = [["word"] * 20] * 50_000
    body = json.dumps({"sentences": words, "format": "conllu"}).encode()
    with running(options.model) as service:
        print(f"a million words: {post(service.connect(), body)}")
    bounds = ["--max-words", "2000000", "--max-queue", "3000000", "--max-body", "100000000"]
    with running(options.model, *bounds) as service:
        started, status = time.perf_counter(), list[int]()
        thread = threading.Thread(target=lambda: status.append(post(service.connect(), body)))
        thread.start()
        short = list[float]()
        while thread.is_alive():
            time.sleep(0.5)
            began = time.perf_counter()
            post(service.connect(), bodies_of(sentences[:1], 1)[0])
            short.append(1000 * (time.perf_counter() - began))
        peak = Path(f"/proc/{service.process.pid}/status").read_text().partition("VmHWM:")[2].split()[0]
        print(
            f"a million words, if allowed: {status[0]} in {time.perf_counter() - started:.0f} s, "
            f"peak {int(peak) // 1024} MB"
        )
        print(f"  short requests meanwhile: median {np.median(short):.0f} ms, longest {max(short):.0f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("file")
    parser.add_argument("--sentences", type=int, default=2000)
    parser.add_argument("--size", type=int, default=10, help="sentences of a request")
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--loads", default="0.25,0.5,0.75")
    parser.add_argument("--accidents", action="store_true", help="also kills, and a million words")
    options = parser.parse_args()
    sentences = list(read_conll(options.file, trees=False))[: options.sentences]
    rate = throughput(options, sentences)
    loads(options, sentences, rate)
    if options.accidents:
        bodies = bodies_of(sentences * 10, 100)
        kill_server(options, bodies, signal.SIGTERM)
        kill_server(options, bodies, signal.SIGKILL)
        kill_client(options, sentences)
        million(options, sentences)


if __name__ == "__main__":
    main()
