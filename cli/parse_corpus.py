"""`arbora parse-corpus`: parse a corpus in shards, on one machine or on a Ray cluster."""

from __future__ import annotations

import os
import re
import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from hashlib import blake2b
from json import dumps, loads
from typing import Any

from arbora.cli.console import plain_console
from arbora.cli.options import check_least
from arbora.cli.options.parse_corpus import parser
from arbora.cli.parsing_options import chosen_decoder, parsing_settings
from arbora.cli.progress import Display
from arbora.cli.resuming import identity_of_run
from arbora.decoders.kernels.threads import available_cores
from arbora.decoders.names import OWN
from arbora.model.catalogue import find_model
from arbora.model.corpus.driver import Driver, Engine
from arbora.model.corpus.folder import PLAN, RUN, TEMPORARY, WRITTEN, Folder
from arbora.model.corpus.merge import merge, write_manifest
from arbora.model.corpus.plan import DIGEST, Plan, find_inputs, make_plan
from arbora.model.corpus.shard import WorkerSettings
from arbora.model.inference.batch_parser import ParsingSettings

SHOWN = 20
"""Most messages about sentences that are shown; further ones are counted."""


def main(arguments: Sequence[str]) -> None:
    """Run `arbora parse-corpus` with these arguments."""
    options = parser().parse(arguments)
    parsing = _check(options)
    share = _share(options.shard)
    options.model = str(find_model(options.model))
    folder = Folder(options.output)
    status = f"status-{share[0]}-of-{share[1]}.json" if share else "status.json"
    console = _Console(options.quiet)
    with folder.one_driver(status):
        if options.replace:
            folder.remove(*WRITTEN)
        plan = make_plan(find_inputs(options.inputs, options.input, options.output), _bytes(options.shard_size))
        settings = _begin(options, folder, plan, parsing)
        shards = range(len(plan.shards))[share[0] - 1 :: share[1]] if share else range(len(plan.shards))
        driver = Driver(folder, plan, shards, options.tries, status)
        if driver.skipped:
            console.say(f"{driver.skipped:,} of {driver.total:,} shards are committed already")
        if driver.waiting:
            console.run(driver, *_engine(options, settings))
        complete = len(folder.committed()) == len(plan.shards)
        counts = write_manifest(folder, plan) if complete else None
        if options.merge and complete:
            console.say(f"merged {merge(folder, plan):,} files")
        if not share:
            with suppress(OSError):  # a worker that was considered lost may still write there
                folder.remove(TEMPORARY)
    console.summarize(driver.summary(), counts)
    if driver.aside or driver.counts["unparsed"]:
        sys.exit(1)


def _check(options: Namespace) -> ParsingSettings:
    """Settings of parsing, if the options go together."""
    check_least(options, workers=0, gpus_per_worker=0, cpus_per_worker=1, tries=1)
    options.decoder = None if options.decoder == OWN else chosen_decoder(options, None)
    if options.address is not None and options.engine != "ray":
        raise ValueError("--address needs a Ray cluster: add --engine ray")
    if options.shard is not None and options.engine == "ray":
        raise ValueError("--shard cannot be used with --engine ray, which distributes the shards itself")
    return parsing_settings(options)


def _share(text: str | None) -> tuple[int, int] | None:
    """Read the value of `--shard`."""
    if text is None:
        return None
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise ValueError(f"--shard must be I/N with I from 1 to N, such as 3/100, got {text}")
    return int(found[1]), int(found[2])


def _bytes(text: str) -> int:
    """Read a size in bytes."""
    found = re.fullmatch(r"([1-9]\d*) ?(|B|kB|MB|GB)", text)
    if not found:
        raise ValueError(f"--shard-size must be a number of bytes, kB, MB or GB, such as 8MB, got {text}")
    return int(found[1]) * {"": 1, "B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9}[found[2]]


def _begin(options: Namespace, folder: Folder, plan: Plan, parsing: ParsingSettings) -> WorkerSettings:
    """Record everything that the run depends on, or check that it is the same as in an earlier run."""
    given = {
        f"--{name.replace('_', '-')}": getattr(options, name) for name in ("input", "column", "on_error", "scores")
    }
    given |= {"--runtime": options.runtime, **asdict(replace(parsing, strict=False))}
    identity = identity_of_run(options.model, options.decoder, (), given) | {"inputs": plan.digest()}
    identity = loads(dumps(identity))
    before = folder.read_json(RUN)
    if before is None:
        with folder.create(PLAN) as file:
            file.write(plan.to_json())
        run = blake2b(dumps(identity, sort_keys=True).encode(), digest_size=DIGEST).hexdigest()
        before = {"run": run, "settings": identity}
        folder.write_json(RUN, before)
    settings = before["settings"]
    for name in identity.keys() | settings.keys():
        if identity.get(name) != settings.get(name):
            what = plan.difference(folder.read_json(PLAN)) if name == "inputs" else f"it was begun with another {name}"
            raise ValueError(f"{folder.url} has the output of another run: {what}; give another folder, or --replace")
    same = {name: getattr(options, name) for name in ("runtime", "device", "decoder", "scores", "on_error", "column")}
    output = folder.url if "://" in folder.url else os.path.abspath(folder.url)
    return WorkerSettings(
        os.path.abspath(options.model),
        identity["model"],
        before["run"],
        output,
        settings=parsing,
        cpus=options.cpus_per_worker,
        **same,
    )


def _engine(options: Namespace, settings: WorkerSettings) -> tuple[Engine, int]:
    """Return the engine and its number of workers."""
    if options.engine == "ray":
        from arbora.model.corpus.ray import RayEngine

        cluster = RayEngine(settings, options.gpus_per_worker, options.address, options.workers)
        return cluster, options.workers or cluster.capacity
    from arbora.model.corpus.local import LocalEngine

    workers = options.workers or max(1, available_cores() // settings.cpus)
    return LocalEngine(settings, options.gpus_per_worker), workers


class _Console:
    """Output on standard error: progress, messages, and a summary."""

    def __init__(self, quiet: bool) -> None:
        self.console, self.quiet = plain_console(stderr=True), quiet
        self.shown = 0

    def say(self, text: str) -> None:
        """Print a line, unless --quiet is given."""
        if not self.quiet:
            self.console.print(text)

    def warn(self, text: str) -> None:
        """Print a message about the input, if there are not too many."""
        self.shown += 1
        if self.shown <= SHOWN:
            self.console.print(f"arbora parse-corpus: {text}")
        elif self.shown == SHOWN + 1:
            self.console.print("arbora parse-corpus: further messages are not shown; the manifest has all of them")

    def run(self, driver: Driver, engine: Engine, workers: int) -> None:
        """Run with a progress bar. If the run fails, say how to resume."""
        try:
            with Display(self.console, driver.words_in_all, 0, self.quiet) as display:
                driver.run(engine, workers, display.advance, self.warn)
        except BaseException:
            done = f"{driver.skipped + driver.counts['shards']:,} of {driver.total:,} shards are committed"
            self.console.print(f"{done}; run the same command again to resume")
            raise

    def summarize(self, summary: dict[str, Any], counts: Counter[str] | None) -> None:
        """Print a summary."""
        shards = summary["shards"]
        self.say(
            f"parsed {summary['sentences']:,} sentences, {summary['words']:,} words in {summary['seconds']:.1f} s "
            f"({summary['words_per_second']:,.0f} words/s), {shards['committed']:,} of {shards['all']:,} shards"
        )
        for worker in summary["workers"]:
            rate = f"{worker['words_per_second'] or 0:,.0f} words/s"
            lost = f", lost {worker['lost']} times" if worker["lost"] else ""
            self.say(f"  {worker['worker']}: {worker['shards']:,} shards, {worker['words']:,} words, {rate}{lost}")
        for shard in summary["stragglers"]:
            self.say(f"  slow: shard {shard['shard']}, {shard['seconds']:.1f} s on {shard['worker']}")
        if counts is not None:
            self.say(f"all shards are committed: {counts['words']:,} words, {counts['bytes']:,} bytes")
        if summary["unparsed"]:
            self.console.print(f"arbora parse-corpus: {summary['unparsed']:,} sentences could not be parsed")
        if summary["set_aside"]:
            self.console.print(f"arbora parse-corpus: {shards['set_aside']:,} shards are set aside; run again to retry")
