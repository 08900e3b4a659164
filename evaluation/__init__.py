"""Comparing parses with a gold standard."""

from arbora.evaluation.alignment import aligned_scores
from arbora.evaluation.figures import DifferentWordsError, Evaluation, evaluate_files, non_projective_arcs
from arbora.evaluation.table import aligned_table, figures_table

__all__ = [
    "DifferentWordsError",
    "Evaluation",
    "aligned_scores",
    "aligned_table",
    "evaluate_files",
    "figures_table",
    "non_projective_arcs",
]
