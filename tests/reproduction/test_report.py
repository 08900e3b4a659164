import json
import math
from pathlib import Path

import pytest

from arbora.reproduction import PAPERS, published
from arbora.reproduction.report import NOTHING, Report, Table, cited, number, over, read_json


def test_a_table_is_aligned_markdown() -> None:
    table = Table("Title", ["", "UAS", "(paper)"], [["BGI", "87.64", "–"], ["BGI-PP + i", "9.00", "88.98"]], ["a note"])
    lines = table.markdown().splitlines()
    assert lines[0] == "### Title"
    assert lines[2:6] == [
        "|            |   UAS | (paper) |",
        "|------------|------:|--------:|",
        "| BGI        | 87.64 |       – |",
        "| BGI-PP + i |  9.00 |   88.98 |",
    ]
    assert lines[-1] == "- a note"


def test_rows_must_have_all_columns() -> None:
    with pytest.raises(ValueError, match="Title: rows and columns differ"):
        Table("Title", ["", "UAS"], [["BGI"]])


def test_numbers_are_means_with_their_spread() -> None:
    assert number(1234.567, 1) == "1,234.6"
    assert number([1.0, 2.0, 4.5]) == "2.50 (1.00 to 4.50)"
    assert number([1.0, None, math.nan]) == "1.00"
    assert number([None]) == number(None) == cited(None) == NOTHING


def test_a_path_into_results_may_end_early() -> None:
    results = [{"a": {"b": [1.0, 2.0]}}, {"a": None}, {}]
    assert over(results, "a", "b", 1) == "2.00"
    assert over(results, "a", "c") == NOTHING


def test_a_report_is_written_as_markdown_and_json(tmp_path: Path) -> None:
    table = Table("Title", ["", "UAS"], [["ours", "1.00"]])
    report = Report("greedy, x", ["a line"], [table], {"seeds": [1]}, {"1": {"uas": 1.0}})
    report.write(tmp_path)
    assert (tmp_path / "report.md").read_text(encoding="utf-8") == report.markdown()
    assert read_json(tmp_path / "report.json") == report.plain() == json.loads(json.dumps(report.plain()))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.json", "report.md"]


def test_citeds_stand_in_the_range_of_what_they_are() -> None:
    for rows in (
        *published.GREEDY_TABLE_1A.values(),
        *published.GREEDY_TABLE_1A_ENSEMBLE.values(),
        *published.GREEDY_TABLE_1B.values(),
        *published.GREEDY_TABLE_1B_ENSEMBLE.values(),
    ):
        for row in rows.values():
            assert all(0 < value <= 100 for name, value in row.items() if name != "words_per_second")
    assert all(row["uas"] < row["undirected_uas"] for row in published.GREEDY_TABLE_1A_ENSEMBLE["second"].values())
    for half in published.HILL_CLIMBING_TABLE_3.values():
        for certified, *shares in half.values():
            assert sum(shares) == pytest.approx(100, abs=0.11)
            assert 75 < certified < 100
    for entry in published.HILL_CLIMBING_TABLE_5.values():
        assert all(initial < uas for uas, initial in entry.values())
    languages = [entry for name, entry in published.HILL_CLIMBING_TABLE_5.items() if name != "Average"]
    for start, figures in published.HILL_CLIMBING_TABLE_5["Average"].items():
        for i, mean in enumerate(figures):
            assert sum(entry[start][i] for entry in languages) / len(languages) == pytest.approx(mean, abs=0.06)
    for orders in published.AD3_TABLE_3.values():
        rates = [rate for _, rate in orders.values()]
        assert rates == sorted(rates, reverse=True)


def test_means_that_the_greedy_paper_prints_are_those_of_its_text() -> None:
    """Section 9 says by how much each row is worse and faster than TurboParser."""
    first, second = published.GREEDY_TABLE_1A["first"], published.GREEDY_TABLE_1A["second"]
    assert first["exact"]["uas"] - first["BGI-PP"]["uas"] == pytest.approx(0.34)
    assert second["exact"]["uas"] - second["BGI-PP"]["uas"] == pytest.approx(2.58)
    assert second["exact"]["uas"] - second["BGI-PP + i + b"]["uas"] == pytest.approx(1.01)
    speed = {row: figures["words_per_second"] / second["exact"]["words_per_second"] for row, figures in second.items()}
    assert speed["BGI-PP"] == pytest.approx(2.4, abs=0.01)
    assert speed["BGI-PP + i + b"] == pytest.approx(1.43, abs=0.01)
    for order, alone in published.GREEDY_TABLE_1A.items():
        rows = (alone["exact"], alone["BGI-PP"], alone["BGI-PP + i + b"])
        rows += (published.GREEDY_TABLE_1A_ENSEMBLE[order]["BGI-PP + i + b"],)
        languages = zip(*(figures[order] for figures in published.GREEDY_TABLE_2.values()))
        for row, uas in zip(rows, languages, strict=True):
            assert sum(uas) / len(uas) == pytest.approx(row["uas"], abs=0.02)


def test_papers_have_names_and_sources() -> None:
    assert list(PAPERS) == ["greedy", "hill-climbing", "ad3", "vine"]
    assert all(str(year) in PAPERS[name].source.citation for name, year in zip(PAPERS, (2016, 2014, 2013, 2012)))
