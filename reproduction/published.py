"""Figures printed in the papers, with the numbers of their tables.

They are from the papers' own data and machines, so they show which pattern to expect, not which numbers. Figures are
left out if the text of the paper leaves doubt, or if they must be wrong: table 1 of the greedy paper gives basic greedy
search at first order the same number for shared arcs and for undirected UAS.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Source:
    """A paper.

    Args:
        citation: authors, year, title and venue.
        data: data of its figures.
        machine: machine of its figures, if the paper names it.
    """

    citation: str
    data: str
    machine: str

    @property
    def note(self) -> str:
        """Return a line to print below a table."""
        return f"paper: {self.data}; {self.machine}"


GREEDY = Source(
    'I. Tchernowitz, L. Yedidsion and R. Reichart (2016), "Effective greedy inference for graph-based non-projective '
    'dependency parsing", EMNLP',
    "means over 8 languages of CoNLL 2006 and 2007, fully supervised, TurboParser trained with each inference",
    "tokens per second of the whole parser on an Intel Xeon E5-2697 v3 at 2.6 GHz",
)

GREEDY_TABLE_1A: dict[int, dict[str, dict[str, float]]] = {
    1: {
        "exact": {"uas": 87.98, "words_per_second": 5621.30, "undirected_uas": 88.82},
        "BGI": {"uas": 83.78, "words_per_second": 5981.91, "sarc": 90.87},
        "BGI-PP": {"uas": 87.64, "words_per_second": 5680.60, "sarc": 97.15, "undirected_uas": 88.53},
        "BGI-PP + i": {"uas": 87.76, "words_per_second": 4648.4, "sarc": 98.10, "undirected_uas": 88.64},
        "BGI-PP + i + b": {"uas": 87.78, "words_per_second": 3253.80, "sarc": 98.29, "undirected_uas": 88.73},
    },
    2: {
        "exact": {"uas": 90.26, "words_per_second": 356.63, "undirected_uas": 90.98},
        "BGI": {"uas": 27.54, "words_per_second": 715.41, "sarc": 27.76, "undirected_uas": 27.77},
        "BGI-PP": {"uas": 87.68, "words_per_second": 858.25, "sarc": 92.66, "undirected_uas": 88.73},
        "BGI-PP + i": {"uas": 88.98, "words_per_second": 639.97, "sarc": 94.40, "undirected_uas": 89.81},
        "BGI-PP + i + b": {"uas": 89.25, "words_per_second": 511.47, "sarc": 94.79, "undirected_uas": 90.02},
    },
}
"""Table 1 (a), individual models, by order; `exact` is TurboParser: Chu-Liu-Edmonds, or AD3 at second order."""

GREEDY_TABLE_1A_ENSEMBLE: dict[int, dict[str, dict[str, float]]] = {
    1: {
        "BGI-PP": {"uas": 88.03, "sarc": 99.59, "undirected_uas": 88.84},
        "BGI-PP + i": {"uas": 87.96, "sarc": 99.47, "undirected_uas": 88.80},
        "BGI-PP + i + b": {"uas": 87.91, "sarc": 99.07, "undirected_uas": 88.82},
    },
    2: {
        "BGI-PP": {"uas": 90.50, "sarc": 99.54, "undirected_uas": 91.20},
        "BGI-PP + i": {"uas": 90.50, "sarc": 99.43, "undirected_uas": 91.19},
        "BGI-PP + i + b": {"uas": 90.53, "sarc": 99.40, "undirected_uas": 91.21},
    },
}
"""Table 1 (a), ensembles with TurboParser, by order."""

GREEDY_GOLD: dict[int, dict[str, tuple[float, float]]] = {2: {"BGI-PP + i + b": (1.6, 2.6)}}
"""Section 9, gold(x, TurboParser), by order."""

HILL_CLIMBING = Source(
    'Y. Zhang, T. Lei, R. Barzilay and T. Jaakkola (2014), "Greed is good if randomized: new inference for dependency '
    'parsing", EMNLP',
    "CoNLL 2006 and 2008, UAS without punctuation",
    "8 threads",
)

HILL_CLIMBING_TABLE_1: dict[str, tuple[float, float]] = {
    "Slovene": (83.7, 84.2),
    "Arabic": (79.0, 79.2),
    "Japanese": (93.4, 93.7),
    "English": (91.6, 91.9),
    "Average": (86.9, 87.3),
}
"""UAS of a classifier of each word's head, and of a first-order parser with the same features, each trained so."""

HILL_CLIMBING_TABLE_2: dict[str, dict[str, Any]] = {
    "Turkish": {"length": 12.1, "optima": ("1", "1", "2"), "short": 100.0, "long": 100.0},
    "Slovene": {"length": 15.9, "optima": ("2", "20", "3647"), "short": 100.0, "long": 98.1},
    "English": {"length": 24.0, "optima": ("21", "121", "2443"), "short": 100.0, "long": 99.3},
    "Arabic": {"length": 36.8, "optima": ("2", "35", ">10000"), "short": 100.0, "long": 99.1},
}
"""Mean length, local optima at 50, 70 and 90 % of the sentences, best trees found in sentences of up to 15 words and of
more, by 300 uniform restarts."""

HILL_CLIMBING_TABLE_3: dict[str, tuple[float, float, float, float]] = {
    "Turkish": (98.7, 0.0, 99.8, 0.2),
    "Slovene": (94.5, 0.0, 98.7, 1.3),
    "English": (94.5, 0.3, 98.7, 1.0),
    "Arabic": (78.8, 3.4, 93.9, 2.7),
}
"""Trained with hill-climbing: certified by dual decomposition; its score above, equal to, below hill-climbing's."""

HILL_CLIMBING_TABLE_4: dict[str, float] = {"climbing, first order": 87.75, "exact, first order": 87.79, "full": 89.44}
"""Means of UAS over 14 languages."""

HILL_CLIMBING_TABLE_5: dict[str, dict[str, tuple[float, float]]] = {
    "Slovene": {"best": (85.2, 80.1), "uniform": (86.7, 13.7), "first_order": (86.7, 34.2)},
    "Arabic": {"best": (78.8, 75.1), "uniform": (79.7, 12.4), "first_order": (80.2, 32.8)},
    "English": {"best": (91.1, 82.0), "uniform": (93.3, 39.6), "first_order": (93.3, 55.6)},
    "Chinese": {"best": (87.2, 75.3), "uniform": (93.2, 36.8), "first_order": (93.0, 54.5)},
    "Dutch": {"best": (84.8, 79.5), "uniform": (87.0, 26.9), "first_order": (87.4, 45.6)},
    "Average": {"best": (85.4, 78.4), "uniform": (88.0, 25.9), "first_order": (88.1, 44.5)},
}
"""UAS, and UAS of the trees from which climbs start, by how these are drawn."""

HILL_CLIMBING_TABLE_6: dict[str, tuple[float, float]] = {"Slovene": (100.0, 98.11), "English": (100.0, 99.12)}
"""Best trees of 3,000 restarts found within 300, in sentences of up to 15 words and of more."""

AD3 = Source(
    'A. Martins, M. Almeida and N. Smith (2013), "Turning on the Turbo: fast third-order non-projective Turbo '
    'parsers", ACL',
    "Penn Treebank (head rules of Yamada and Matsumoto), section 22, UAS without punctuation",
    "tokens per second of pruning, scoring and decoding on an Intel Core i7 at 3.4 GHz",
)

AD3_TABLE_2: dict[str, dict[str, float]] = {
    "first": {"uas": 91.38, "words_per_second": 4063},
    "second": {"uas": 93.15, "words_per_second": 1338},
    "second_all": {"uas": 93.28, "words_per_second": 1018},
    "third": {"uas": 93.29, "words_per_second": 709},
}
"""Section 22; `second_all` has arbitrary siblings and head bigrams too."""

AD3_TABLE_3: dict[str, dict[str, tuple[float, int]]] = {
    "Arabic": {"first": (77.23, 2481), "second": (78.50, 388), "third": (79.64, 197)},
    "Bulgarian": {"first": (91.76, 5678), "second": (92.82, 2049), "third": (93.10, 1273)},
    "Chinese": {"first": (88.49, 18094), "second": (90.14, 4284), "third": (89.98, 2592)},
    "Czech": {"first": (87.66, 1840), "second": (90.00, 751), "third": (90.32, 501)},
    "Danish": {"first": (89.42, 4110), "second": (91.20, 1053), "third": (91.48, 650)},
    "Dutch": {"first": (83.61, 3884), "second": (86.37, 1294), "third": (86.19, 599)},
    "German": {"first": (90.52, 5331), "second": (91.85, 1788), "third": (92.41, 965)},
    "English": {"first": (91.21, 3127), "second": (93.03, 1317), "third": (93.22, 785)},
    "Japanese": {"first": (92.78, 23895), "second": (93.14, 5660), "third": (93.52, 2996)},
    "Portuguese": {"first": (91.14, 4273), "second": (92.71, 1316), "third": (92.69, 740)},
    "Slovene": {"first": (82.81, 4315), "second": (85.21, 722), "third": (86.01, 366)},
    "Spanish": {"first": (83.61, 4347), "second": (84.97, 623), "third": (85.59, 318)},
    "Swedish": {"first": (89.36, 5622), "second": (90.98, 1387), "third": (91.14, 684)},
    "Turkish": {"first": (75.98, 6418), "second": (76.50, 1721), "third": (76.90, 793)},
}
"""CoNLL 2006 and 2008: UAS and tokens per second, by order."""

AD3_INTEGRAL = 95.0
"""Section 4: percentage of sentences with integral solutions, about."""

VINE = Source(
    'A. Rush and S. Petrov (2012), "Vine pruning for efficient multi-pass dependency parsing", NAACL',
    "Penn Treebank (Stanford dependencies), section 23, predicted tags, UAS without punctuation",
    "its unpruned first order parses about 2,000 tokens per second",
)

VINE_TABLE_1: dict[int, dict[str, dict[str, float]]] = {
    1: {
        "NOPRUNE": {"speed": 1.00, "efficiency": 0.00, "oracle_uas": 100, "uas": 91.4},
        "LENGTHDICTIONARY": {"speed": 1.94, "efficiency": 43.9, "oracle_uas": 99.9, "uas": 91.5},
    },
    2: {
        "NOPRUNE": {"speed": 0.32, "efficiency": 0.00, "oracle_uas": 100, "uas": 92.7},
        "LENGTHDICTIONARY": {"speed": 0.76, "efficiency": 43.9, "oracle_uas": 99.9, "uas": 92.8},
    },
    3: {
        "NOPRUNE": {"speed": 0.01, "efficiency": 0.00, "oracle_uas": 100, "uas": 93.3},
        "LENGTHDICTIONARY": {"speed": 0.05, "efficiency": 43.9, "oracle_uas": 99.9},
        "VINECASCADE": {"oracle_uas": 97.4},
    },
}
"""By order, as far as the text at hand shows the table; the oracle of the cascade at third order is from section 6."""

VINE_SECTION_6 = (
    "the third-order cascade is twice as fast as the unpruned first order and more than 200 times as fast as the "
    "unpruned third order",
    "each pruning pass takes about the same time, and the final pass most (table 2)",
    "time grows almost linearly with length for the first-order cascade, less than quadratically for the third-order "
    "one (figure 6)",
)
"""Statements of the paper in words."""

VINE_TABLE_3: dict[str, tuple[float, int]] = {
    "Bulgarian": (91.9, 3980),
    "Chinese": (90.9, 7800),
    "German": (90.8, 2880),
    "Japanese": (92.3, 8600),
    "Portuguese": (91.5, 2900),
    "Swedish": (90.1, 5320),
}
"""UAS and tokens per second of the third-order cascade on CoNLL-X, as table 3 of Martins et al. (2013) cites them."""
