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


def _greedy_rows(**rows: tuple[float | None, ...]) -> dict[str, dict[str, float]]:
    """Rows of table 1 of the greedy paper: UAS, tokens per second, SARC and undirected UAS."""
    names = {"exact": "exact", "BGI": "BGI", "PP": "BGI-PP", "PP_i": "BGI-PP + i", "PP_i_b": "BGI-PP + i + b"}
    columns = ("uas", "words_per_second", "sarc", "undirected_uas")
    return {
        names[name]: {column: figure for column, figure in zip(columns, row) if figure is not None}
        for name, row in rows.items()
    }


GREEDY_TABLE_1A: dict[str, dict[str, dict[str, float]]] = {
    "first": _greedy_rows(
        exact=(87.98, 5621.30, None, 88.82),
        BGI=(83.78, 5981.91, 90.87, None),
        PP=(87.64, 5680.60, 97.15, 88.53),
        PP_i=(87.76, 4648.4, 98.10, 88.64),
        PP_i_b=(87.78, 3253.80, 98.29, 88.73),
    ),
    "second": _greedy_rows(
        exact=(90.26, 356.63, None, 90.98),
        BGI=(27.54, 715.41, 27.76, 27.77),
        PP=(87.68, 858.25, 92.66, 88.73),
        PP_i=(88.98, 639.97, 94.40, 89.81),
        PP_i_b=(89.25, 511.47, 94.79, 90.02),
    ),
}
"""Table 1 (a), individual models, by order; `exact` is TurboParser: Chu-Liu-Edmonds, or AD3 at second order."""

GREEDY_TABLE_1A_ENSEMBLE: dict[str, dict[str, dict[str, float]]] = {
    "first": _greedy_rows(
        PP=(88.03, 2876.03, 99.59, 88.84), PP_i=(87.96, 2557.00, 99.47, 88.80), PP_i_b=(87.91, 2053.00, 99.07, 88.82)
    ),
    "second": _greedy_rows(
        PP=(90.50, 249.40, 99.54, 91.20), PP_i=(90.50, 297.10, 99.43, 91.19), PP_i_b=(90.53, 212.40, 99.40, 91.21)
    ),
}
"""Table 1 (a), ensembles with TurboParser of the same order; its time counts."""

GREEDY_TABLE_1B: dict[str, dict[str, dict[str, float]]] = {
    "first": _greedy_rows(
        exact=(78.99, 13097.00, None, 80.38),
        PP=(78.76, 13848.00, 85.36, 80.15),
        PP_i=(78.87, 11673.00, 85.54, 80.25),
        PP_i_b=(78.91, 4212.50, 85.58, 80.29),
    ),
    "second": _greedy_rows(
        exact=(80.52, 830.05, None, 81.84),
        PP=(78.80, 3089.40, 84.59, 80.27),
        PP_i=(79.36, 2414.00, 84.81, 80.76),
        PP_i_b=(79.45, 1372.70, 84.89, 80.84),
    ),
}
"""Table 1 (b), the same by parsers that learn from 500 sentences: means over 17 languages and 20 samples."""

GREEDY_TABLE_1B_ENSEMBLE: dict[str, dict[str, dict[str, float]]] = {
    "first": _greedy_rows(
        PP=(79.14, 6499.00, 87.36, 80.50), PP_i=(79.24, 6516.00, 87.55, 80.59), PP_i_b=(79.29, 4349.00, 87.61, 80.62)
    ),
    "second": _greedy_rows(
        PP=(80.60, 636.30, 95.57, 81.88), PP_i=(80.67, 621.50, 95.41, 82.16), PP_i_b=(80.69, 518.10, 95.44, 81.96)
    ),
}

GREEDY_GOLD: dict[str, dict[str, tuple[float, float]]] = {
    "a": {"second": (1.6, 2.6)},
    "b": {"first": (4.98, 5.5), "second": (4.86, 5.92)},
}
"""Section 9, gold(BGI-PP + i + b, TurboParser), by part of table 1 and order."""

GREEDY_TABLE_2: dict[str, dict[str, tuple[float, float, float, float]]] = {
    "Swedish": {"first": (87.12, 86.35, 86.93, 87.12), "second": (88.65, 86.14, 87.85, 89.29)},
    "Bulgarian": {"first": (90.66, 90.22, 90.42, 90.66), "second": (92.43, 89.73, 91.50, 92.58)},
    "Chinese": {"first": (84.88, 83.89, 84.17, 84.17), "second": (86.53, 81.33, 85.18, 86.59)},
    "Czech": {"first": (83.53, 83.46, 83.44, 83.44), "second": (86.35, 84.91, 86.26, 87.50)},
    "Dutch": {"first": (88.48, 88.56, 88.43, 88.43), "second": (91.30, 89.64, 90.49, 91.34)},
    "Japanese": {"first": (93.03, 93.18, 93.27, 93.27), "second": (93.83, 93.78, 94.01, 94.01)},
    "Catalan": {"first": (88.94, 88.50, 88.67, 88.93), "second": (92.25, 89.3, 90.46, 92.24)},
    "English": {"first": (87.18, 86.94, 86.84, 87.18), "second": (90.70, 86.52, 88.24, 90.66)},
}
"""UAS of TurboParser, BGI-PP, BGI-PP + i + b, and its ensemble with TurboParser, by language and order."""

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

HILL_CLIMBING_TABLE_3: dict[str, dict[str, tuple[float, float, float, float]]] = {
    "climbing": {
        "Turkish": (98.7, 0.0, 99.8, 0.2),
        "Slovene": (94.5, 0.0, 98.7, 1.3),
        "English": (94.5, 0.3, 98.7, 1.0),
        "Arabic": (78.8, 3.4, 93.9, 2.7),
    },
    "dual": {
        "Turkish": (98.7, 0.0, 100.0, 0.0),
        "Slovene": (92.3, 0.2, 99.0, 0.8),
        "English": (94.6, 0.5, 98.7, 0.8),
        "Arabic": (75.3, 4.7, 88.4, 6.9),
    },
}
"""By training: certified by dual decomposition; its score above, equal to, below hill-climbing's."""

HILL_CLIMBING_CERTIFIED = "> 99"
"""Section 4.2: percentage of the certified sentences in which hill-climbing reaches the same optimum."""

HILL_CLIMBING_TABLE_4: dict[str, dict[str, float]] = {
    "climbing, first order": {"Average": 87.75, "Turkish": 76.57},
    "exact, first order": {"Average": 87.79, "Turkish": 76.40},
    "climbing, third order": {"Average": 89.10, "Turkish": 76.80},
    "climbing, full": {"Average": 89.44, "Turkish": 76.68},
}
"""UAS: means over 14 languages, and the language that has a treebank in Universal Dependencies from the same text."""

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
