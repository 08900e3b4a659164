"""Comparing parses with a gold standard."""

from arbora.evaluation.figures import Evaluation, evaluate_files, non_projective_arcs
from arbora.evaluation.table import figures_table

__all__ = ["Evaluation", "evaluate_files", "figures_table", "non_projective_arcs"]
