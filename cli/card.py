"""The model card of an exported parser: what it is, what it was trained on, how well it does, how to use it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import yaml

from arbora.evaluation.table import number_text
from arbora.model.linear.backend import LinearModel
from arbora.model.storage.folder import Config

if TYPE_CHECKING:
    from arbora.model.network import Network

LICENCES = {f"cc-by-{kind}{number}" for kind in ("", "sa-", "nc-", "nc-sa-") for number in ("3.0", "4.0")}
LICENCES |= {"apache-2.0", "bsd-3-clause", "cc0-1.0", "gpl", "gpl-2.0", "gpl-3.0", "lgpl-3.0", "lgpl-lr", "mit"}
"""Identifiers of licences that Hugging Face knows; others are written by their name."""

TRAINING = {
    "start": "started from",
    "train": "training part",
    "dev": "development part",
    "language": "language",
    "transformer": "pretrained transformer",
    "vectors": "pretrained word vectors",
    "sample": "sentences drawn from the training part",
    "fold": "which sample",
    "max_length": "longest sentence",
    "epochs": "epochs",
    "steps": "steps",
    "seed": "seed",
    "loss": "loss",
    "dev_las": "LAS on the development part (full labels)",
}
"""Facts about training, by the names that the card gives them."""


def model_card(name: str, config: Config, model: Network | LinearModel) -> str:
    """Return the card: Markdown with a YAML header, as model hubs read it.

    Args:
        name: of the folder.
        config: contents of the folder's `config.json`.
        model: the parser.
    """
    sections = [
        _head(name, config),
        f"# {_line(name)}",
        f"A graph-based dependency parser, made by Arbora {_made_with(config)}. {_reads(model)}",
        "## Use",
        f"```bash\narbora predict {_line(name)} input.conllu -o parsed.conllu\n```",
        "From Python, `arbora.load` takes the folder. Loading reads tensors and JSON, and runs no code from them.",
        "## Training",
        _table(["what", ""], _facts(config)),
        "## Accuracy",
        _accuracy(config),
        "## Settings",
        f"```yaml\n{yaml.safe_dump(config.settings, sort_keys=False).strip()}\n```",
        "## Files",
        _table(
            ["file", "bytes", "SHA-256"],
            [
                [f"`{_line(file)}`", f"{entry['bytes']:,}", f"`{entry['sha256']}`"]
                for file, entry in config.files.items()
            ],
        ),
        "## Licence",
        _line(config.license) if config.license else "Not stated. The licence of the treebank may restrict its use.",
    ]
    return "\n\n".join(sections) + "\n"


def _head(name: str, config: Config) -> str:
    """The head of the card by the conventions of Hugging Face: licence, language, tags and figures."""
    head: dict[str, Any] = {}
    treebank = config.figures[0]["treebank"] if config.figures else str(config.training.get("train", ""))
    if language := re.search(r"(?:^|/)([a-z]{2,3})_[\w]+-ud-", treebank):
        head["language"] = language[1]
    if config.training.get("language"):
        head["language"] = config.training["language"]
    if config.license:
        written = re.sub(r"[\s_-]+", "-", config.license.strip().lower())
        known = written in LICENCES
        head |= {"license": written} if known else {"license": "other", "license_name": config.license}
    head |= {"library_name": "arbora", "pipeline_tag": "token-classification"}
    head["tags"] = ["dependency-parsing", "universal-dependencies", "arbora"]
    if config.figures:
        exported = config.figures[-1]
        metrics = [
            {"type": figure, "name": figure.upper(), "value": round(exported[figure], 2)}
            for figure in ("uas", "las", "clas")
            if exported[figure] is not None
        ]
        task = {"type": "token-classification", "name": "dependency parsing"}
        dataset = {"type": "universal_dependencies", "name": treebank}
        head["model-index"] = [{"name": name, "results": [{"task": task, "dataset": dataset, "metrics": metrics}]}]
    return f"---\n{yaml.safe_dump(head, sort_keys=False, allow_unicode=True)}---"


def _made_with(config: Config) -> str:
    made = config.made_with
    return f"{made.get('version')}" + (f" (revision {made['revision']})" if made.get("revision") else "")


def _reads(model: Network | LinearModel) -> str:
    if isinstance(model, LinearModel):
        kinds, weights = tuple(model.part_features), int(np.count_nonzero(model.weights))
    else:
        kinds = () if model.parts is None else model.parts.kinds
        weights = sum(weight.numel() for weight in model.parameters())
    order = f"arcs and parts of several ({', '.join(kinds)})" if kinds else "arcs only"
    columns = f"the words and the columns {', '.join(model.tags)} of its input" if model.tags else "words only"
    predicted = f"predicts {', '.join(model.predicts)} of words, " if model.predicts else ""
    return (
        f"It reads {columns}, {predicted}scores {order}, and decodes with {type(model.decoder).__name__}. "
        f"It has {len(model.vocabulary.labels)} labels and {weights:,} weights."
    )


def _facts(config: Config) -> list[list[str]]:
    facts = config.training
    rows = []
    for name, what in TRAINING.items():
        if (value := facts.get(name)) is not None:
            rows.append([what, _line(", ".join(map(str, value)) if isinstance(value, list) else value)])
    if isinstance(made := facts.get("made_with"), dict):
        rows.append(["Arbora, in training", _line(" ".join(str(value) for value in made.values()))])
    if config.temperature:
        rows.append(["temperatures of arcs and labels", ", ".join(f"{value:.3g}" for value in config.temperature)])
    return rows or [["not known", ""]]


def _accuracy(config: Config) -> str:
    if not config.figures:
        return "Not measured; use `arbora export --evaluate`."
    first = config.figures[0]
    text = (
        f"On {_line(first['treebank'])}, {first['sentences']:,} sentences and {first['words']:,} words, all tokens, as "
        "the official Universal Dependencies evaluation counts. Speed was measured on the machine of the export."
    )
    rows = []
    for row in config.figures:
        figures = (number_text(row[name]) for name in ("uas", "las", "clas"))
        rows.append([row["parser"], row["runtime"], row["precision"], *figures, f"{row['words_per_second']:,}"])
    header = ["parser", "runtime", "weights", "UAS", "LAS", "CLAS", "words/s"]
    return "\n\n".join([text, _table(header, rows), *_accuracy_of_text(config)])


def _accuracy_of_text(config: Config) -> list[str]:
    """Figures on raw text, if they were measured."""
    names = ["tokens", "sentences", "words", "upos", "xpos", "ufeats", "lemmas", "uas", "las", "clas", "mlas", "blex"]
    measured = [row for row in config.figures if "raw" in row]
    rows = [[row["parser"], row["precision"], *(f"{row['raw'][name]:.2f}" for name in names)] for row in measured]
    titles = {"ufeats": "UFeats"} | {name: name.capitalize() for name in ("tokens", "sentences", "words", "lemmas")}
    header = ["parser", "weights", *(titles.get(name, name.upper()) for name in names)]
    text = "On its raw text, with the parser's own tokenizer, F1 as `arbora evaluate` prints it:"
    return [text, _table(header, rows)] if rows else []


def _table(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _line(text: Any) -> str:
    """Make text safe for a table or a heading."""
    return " ".join(str(text).replace("|", "\\|").replace("`", "'").split())
