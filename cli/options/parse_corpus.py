"""Options of `arbora parse-corpus`."""

from __future__ import annotations

from arbora.cli.options import CommandParser
from arbora.cli.options.parsing import add_parsing_options

DESCRIPTION = """\
Parse a corpus in shards, with several workers on one machine or on a Ray cluster.

  arbora parse-corpus runs/mine/best.ckpt corpus/ -o parsed/
  arbora parse-corpus runs/mine/best.ckpt 's3://bucket/*.jsonl.zst' -o s3://bucket/parsed --engine ray --address auto
  arbora parse-corpus runs/mine/best.ckpt corpus/ -o parsed/ --shard 3/100   # in the third of 100 jobs

Run the same command again to resume: committed shards are skipped. The output is always the same, byte for byte; it
does not depend on the engine, the number of workers or failures. docs/corpora.md explains the output folder.
"""


def parser() -> CommandParser:
    """Make the parser of the command's arguments."""
    parser = CommandParser("parse-corpus", DESCRIPTION)
    parser.add_argument("model", help="checkpoint written by `arbora train`, exported folder, or name of a model")
    parser.add_argument(
        "inputs",
        nargs="+",
        help="files, folders and patterns, plain or compressed; @FILE for a list of them, one per line; "
        "local, or URLs of any file system that fsspec knows",
    )
    parser.add_argument("-o", "--output", required=True, help="output folder, local or a URL")
    parser.add_argument(
        "--input",
        choices=["auto", "conllu", "conllx", "text", "raw", "jsonl", "parquet"],
        default="auto",
        help="auto: by file name; text: one sentence per line, words separated by spaces; raw: running text, "
        "cut into shards at blank lines; jsonl, parquet: rows with running text, written back with a column `conllu`",
    )
    parser.add_argument("--column", default="text", help="column with the text (default: text)")
    parser.add_argument("--engine", choices=["local", "ray"], default="local", help="where workers run")
    parser.add_argument("--workers", type=int, default=0, help="number of workers (default: as many as CPUs allow)")
    parser.add_argument("--cpus-per-worker", type=int, default=1, help="threads of each worker (default: 1)")
    parser.add_argument(
        "--gpus-per-worker", type=float, default=0.0, help="GPUs of each worker; 0.5 lets two share one (default: 0)"
    )
    parser.add_argument("--address", help="address of a Ray cluster, or auto (default: start Ray on this machine)")
    parser.add_argument("--shard", help="I/N: parse only the I-th of N shares of the shards, as in a job array")
    parser.add_argument("--shard-size", default="8MB", help="size of a shard in bytes, kB, MB or GB (default: 8MB)")
    parser.add_argument("--tries", type=int, default=3, help="attempts at a shard before it is set aside (default: 3)")
    parser.add_argument("--replace", action="store_true", help="discard the output of an earlier run in the folder")
    parser.add_argument("--merge", action="store_true", help="after parsing, write one file per input to merged/")
    parser.add_argument(
        "--on-error",
        choices=["copy", "skip"],
        default="copy",
        help="what to do with a sentence that is malformed or cannot be parsed: report it and copy it unchanged, or "
        "leave it out (default: copy); the exit code is 1 in any case",
    )
    add_parsing_options(parser)
    return parser
