"""Reproduction of the tables of four papers: parsers are trained, and figures are shown next to the published ones.

`parsers` has the settings of the parsers, `run` trains them and stores results, `published` has the papers' own
figures, and `report` formats tables. Each paper has a module with its measurements and tables.
"""

from arbora.reproduction import ad3, greedy, hill_climbing, vine, vine_linear
from arbora.reproduction.run import BUDGETS, Paper, Run, Settings, reproduce

PAPERS: dict[str, Paper] = {paper.name: paper for paper in (greedy.PAPER, hill_climbing.PAPER, ad3.PAPER, vine.PAPER)}
"""Papers by their names on the command line, with scores of networks."""

LINEAR_PAPERS: dict[str, Paper] = {
    paper.name: paper
    for paper in (greedy.LINEAR_PAPER, hill_climbing.LINEAR_PAPER, ad3.LINEAR_PAPER, vine_linear.PAPER)
}
"""The same with scores of linear models."""

__all__ = ["BUDGETS", "LINEAR_PAPERS", "PAPERS", "Paper", "Run", "Settings", "reproduce"]
