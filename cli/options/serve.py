"""Options of `arbora serve`."""

from __future__ import annotations

import re
from dataclasses import fields

from arbora.cli.options import CommandParser
from arbora.service.limits import Limits

DESCRIPTION = """\
Start an HTTP service, and a page on which trees of several decoders can be compared.

  arbora serve english
  arbora serve english=runs/mine/best.ckpt greek=exported/greek --port 9000
  curl http://127.0.0.1:8000/v1/parse -H 'content-type: application/json' -d '{"text": "The dog barked."}'

The page is at http://127.0.0.1:8000/, the schema of the API at /openapi.json, UDPipe's interface at /process. Only this
machine can call the service, unless --host says otherwise. Ctrl-C or SIGTERM finishes accepted requests and stops.
docs/service.md explains the API, limits, and several processes behind a proxy.
"""


def parser() -> CommandParser:
    """Make the parser of the command's arguments."""
    parser = CommandParser("serve", DESCRIPTION)
    parser.add_argument("models", nargs="+", help="names, checkpoints or exported folders, also as NAME=PATH")
    parser.add_argument(
        "--host", default="127.0.0.1", help="address to listen on; 0.0.0.0 for all addresses of the machine"
    )
    parser.add_argument("--port", type=int, default=8000, help="port to listen on; 0 for any free port")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:1, mps")
    parser.add_argument("--threads", type=int, help="threads that score and decode (default: one for each core)")
    parser.add_argument(
        "--origins", default="", help="web sites whose pages may call the API, such as https://a.org (default: none)"
    )
    parser.add_argument("--hosts", default="", help="host names that requests may use (default: those of this machine)")
    parser.add_argument("--log-text", action="store_true", help="write the beginning of texts to the log")
    group = parser.add_argument_group("limits")
    about = dict(re.findall(r"^ {8}(\w+): ((?:.|\n {12})*)", Limits.__doc__ or "", re.MULTILINE))
    for field in fields(Limits):
        name = f"--max-{field.name.replace('_', '-')}"
        group.add_argument(
            name,
            type=type(field.default),
            default=field.default,
            help=" ".join(about[field.name].split()).removesuffix("."),
        )
    return parser
