"""The tables of four papers, made again: parsers are trained, and figures stand next to the published ones.

`parsers` has the settings of what is trained, `run` trains and keeps what is done, `published` has the papers' own
figures, `report` lays out tables; each paper has a module with the steps that measure and the tables that show them.
"""

from arbora.reproduction import ad3, greedy, hill_climbing, vine
from arbora.reproduction.run import BUDGETS, Paper, Run, Settings, reproduce

PAPERS: dict[str, Paper] = {paper.name: paper for paper in (greedy.PAPER, hill_climbing.PAPER, ad3.PAPER, vine.PAPER)}
"""By the name that the command line has for them."""

__all__ = ["BUDGETS", "PAPERS", "Paper", "Run", "Settings", "reproduce"]
