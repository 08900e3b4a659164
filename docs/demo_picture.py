"""Makes docs/demo.svg, the README's picture, from what commands print after `make demo`. Run it in the top folder."""

import os
import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

WIDTH = 84
COMMANDS = (
    ["evaluate", "examples/treebank/test.conllu", "runs/demo/test.conllu"],
    ["predict", "runs/demo/best.ckpt", "--sentence", "A painter arrived today who cleaned the clock ."],
)


def main() -> None:
    """Run the commands and save the picture."""
    with open(os.devnull, "w") as nowhere:
        console = Console(record=True, width=WIDTH, file=nowhere)
        for command in COMMANDS:
            shown = " ".join(f'"{word}"' if " " in word else word for word in command)
            run = [sys.executable, "-m", "arbora.cli", *command]
            environment = os.environ | {"COLUMNS": str(WIDTH)}
            printed = subprocess.run(run, check=True, capture_output=True, text=True, env=environment).stdout
            console.print(Text(f"$ arbora {shown}", style="bold green", overflow="fold"))
            console.print(Text(printed.rstrip() + "\n", no_wrap=True))
        picture = console.export_svg(title="arbora")
    # The picture shows with the reader's own monospaced font, and loads nothing.
    picture = re.sub(r"@font-face \{.*?\}", "", picture, flags=re.DOTALL).replace("Fira Code", "DejaVu Sans Mono")
    Path("docs/demo.svg").write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main()
