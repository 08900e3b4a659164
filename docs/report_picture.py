"""Makes docs/report.png and docs/tree.svg, the README's pictures of a report and of a tree, from the bundled treebank.

Run it in the top folder. It trains a small parser for a minute, far from the end, so that decoders have something to
disagree on, and needs Chromium for the picture of the report.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

RUN = Path("runs/report")
TREEBANK = "examples/treebank"
DECODERS = "mst,eisner,projective,greedy,hill_climbing,ad3,subgradient,branch_and_bound"
SENTENCE = 3
WIDTH, HEIGHTS = 1080, (652, 745)
CUT = 106  # of the second view: the title, which the first has already
PAGE = """\
<!doctype html>
<style>
body {{ margin: 0; background: #fdfdfc; }}
div {{ overflow: hidden; }}
iframe {{ display: block; border: 0; width: 100%; height: 1500px; }}
</style>
<div style="height: {1}px"><iframe src="{0}"></iframe></div>
<div style="height: {3}px"><iframe src="{0}#sentences/{2}" style="margin-top: -{4}px"></iframe></div>
"""


def arbora(*arguments: str | Path) -> None:
    """Run a command of arbora."""
    subprocess.run([sys.executable, "-m", "arbora.cli", *map(str, arguments)], check=True)


def main() -> None:
    """Train unless that is done, compare, and take the pictures."""
    model, report, parsed = RUN / "best.ckpt", RUN / "report", RUN / "parsed.conllu"
    if not model.exists():
        data = ("--data.train", f"{TREEBANK}/train.conllu", "--data.dev", f"{TREEBANK}/dev.conllu")
        little = ("--data.sample", "800", "--trainer.max_epochs", "4")
        arbora("train", "--config", "configs/second_order.yaml", "--run", RUN, *data, *little)
    gold = f"{TREEBANK}/test.conllu"
    arbora("compare", model, gold, "--decoders", DECODERS, "--reference", "ad3", "--repeats", "5", "-o", report)
    arbora("predict", model, gold, "--quiet", "-o", parsed)
    arbora("draw", parsed, "--against", gold, "--sentences", str(SENTENCE), "-o", "docs/tree.svg")

    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        sys.exit("there is no Chromium to take the picture of the report with")
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "both.html"
        address = (report / "index.html").resolve().as_uri()
        page.write_text(PAGE.format(address, HEIGHTS[0], SENTENCE, HEIGHTS[1], CUT), encoding="utf-8")
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=5000"]
        size = f"--window-size={WIDTH},{sum(HEIGHTS)}"
        picture = f"--screenshot={Path('docs/report.png').resolve()}"
        where = [f"--user-data-dir={folder}", size, picture, page.as_uri()]
        subprocess.run([browser, *options, *where], check=True, stderr=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
