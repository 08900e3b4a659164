"""`arbora models`: list the models that can be given by name."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from arbora.cli.console import plain_console
from arbora.cli.options import CommandParser
from arbora.evaluation.table import plain_table
from arbora.model.catalogue import Model, known_models, user_folder

DESCRIPTION = """\
List the models that can be given by name instead of by path: models in installed packages, in the folders of
$ARBORA_MODELS, and in the user's data folder. Sizes are in MB. UAS, LAS and raw LAS (from raw text) were measured on a
test part when the model was exported."""


def main(arguments: Sequence[str]) -> None:
    """Run `arbora models` with these arguments."""
    parser = CommandParser("models", DESCRIPTION)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args(arguments)
    found = [_facts(model) for model in known_models().values()]
    if options.json:
        print(json.dumps(found, indent=2))
        return
    console = plain_console()
    if not found:
        console.print(f"no models: install a package of models, or put folders of `arbora export` into {user_folder()}")
        return
    table = plain_table(*found[0], left=3)
    for column in table.columns[:3]:
        column.no_wrap = True
    table.columns[-1].justify, table.columns[-1].min_width = "left", 14
    for facts in found:
        table.add_row(*(_shown(value) for value in facts.values()))
    console.print(table)


def _facts(model: Model) -> dict[str, Any]:
    try:
        config = model.config()
    except ValueError as error:
        return {"model": model.name, **dict.fromkeys(("language", "licence", "MB", "UAS", "LAS", "raw LAS"))} | {
            "from": f"{model.source}: {error}"
        }
    figures = config.figures[-1] if config.figures else {}
    return {
        "model": model.name,
        "language": config.training.get("language"),
        "licence": config.license,
        "MB": round(model.size() / 1e6, 1),
        "UAS": figures.get("uas"),
        "LAS": figures.get("las"),
        "raw LAS": figures.get("raw", {}).get("las"),
        "from": model.source,
    }


def _shown(value: Any) -> str:
    return "–" if value is None else f"{value:.2f}" if isinstance(value, float) and value > 50 else str(value)
