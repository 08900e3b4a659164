"""The page of a comparison, opened in a browser and clicked through."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import Browser, errors

from arbora.data.conll import Sentence
from arbora.decoders import AD3, MST, Eisner, Parts
from arbora.evaluation import comparison, studies, trials
from arbora.evaluation.report import WHAT, as_json, page, write_report
from arbora.evaluation.saved import ScoredTreebank
from arbora.evaluation.trials import Variant

WORDS = ["</script><script>document.title='broken'</script>", "<b>bold</b>", "&amp;", "naïve", "\u2028", "ordinary"]


def random_scored(count: int = 40, seed: int = 0, higher: bool = True) -> ScoredTreebank:
    """Sentences with random scores, on which decoders disagree."""
    rng = np.random.default_rng(seed)
    lengths = np.sort(rng.integers(2, 16, count))[::-1]
    position = rng.permutation(count)
    size = int(lengths.max()) + 1
    more = {"grandparent": rng.normal(size=(count, size, size, size))} if higher else {}
    parts = Parts.from_dense(rng.normal(size=(count, size, size)), lengths, **more)
    sentences: list[Any] = [None] * count
    for n, place in zip(lengths, position, strict=True):
        words = [WORDS[k] for k in rng.integers(0, len(WORDS), n)]
        sentence = Sentence.from_words(words, source="dev.conllu", line_number=1 + 20 * int(place))
        sentence.head = [0, *(int(rng.integers(1, m)) for m in range(2, n + 1))]
        sentence.deprel = ["root", *rng.choice(["nsubj", "obj:x", "<obl>"], n - 1).tolist()]
        sentence.upos = ["NOUN"] * int(n)
        sentences[place] = sentence
    label = rng.integers(0, 3, len(parts.head)).astype(np.int32)
    about = {
        "model": "some.ckpt",
        "file": "dev.conllu",
        "scoring": {"seconds": [0.5, 0.6], "words": 100, "device": "cpu"},
    }
    return ScoredTreebank(sentences, [parts], position, [label], ["root", "nsubj", "obj"], about)


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    scored = random_scored()
    variants = [Variant("mst", MST()), Variant("eisner", Eisner()), Variant("ad3", AD3())]
    found = [trials.decode(variant.decoder, scored) for variant in variants]
    times = trials.measure(variants, found, scored, repeats=2)
    machine = {"system": "Linux", "cores": 2, "load": None, "arbora": "0", "python": "3", "numpy": "2", "numba": "0"}
    about: dict[str, Any] = {"sentences": 40, "words": scored.words, "arcs_per_word": 5.0, "parts": ["grandparent"]}
    about |= {"threads": 1, "repeats": 2, "draws": 50, "seed": 0, "made": "2020-01-01T00:00:00", "machine": machine}
    figures = comparison.report(variants, found, times, scored, draws=50)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(studies, "RESTARTS", (1, 2, 5))
        restarts = studies.restarts(scored, found[2].score)
    pruning = [
        {"max_heads": k, "ratio": ratio, "arcs_per_word": k - ratio, "oracle_uas": 90.0 + k - 10 * ratio}
        for k, ratio in ((1, 0.01), (5, 0.01), (5, 0.1))
    ]
    about["pruner"] = {"max_heads": 5, "ratio": 0.01, "projective_kept": True}
    analyses = {"restarts": restarts, "dual": studies.dual_decomposition(scored, 1), "pruning": pruning}
    return {"what": WHAT, "about": scored.about | about, **figures, "analyses": analyses}


def embedded(text: str) -> Any:
    (found,) = re.findall(r'<script type="application/json" id="report">(.*?)</script>', text, re.DOTALL)
    return json.loads(found)


def test_the_page_holds_the_report_and_nothing_from_elsewhere(report: dict[str, Any], tmp_path: Path) -> None:
    write_report(report, [{"a": 1, "b": None}], tmp_path / "out")
    text = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert embedded(text) == json.loads((tmp_path / "out" / "report.json").read_text(encoding="utf-8")) == report
    assert not re.search(r"""(src|href)\s*=\s*["']|@import|url\(|fetch\(|XMLHttpRequest""", text)
    assert text.count("<script") == 2
    assert "default-src 'none'" in text
    assert (tmp_path / "out" / "sentences.csv").read_text(encoding="utf-8") == "a,b\n1,\n"
    assert len((tmp_path / "out" / "report.csv").read_text(encoding="utf-8").splitlines()) == 4


def test_markup_in_words_stays_text(report: dict[str, Any]) -> None:
    text = page(as_json(report))
    assert "<b>bold" not in text
    assert "\u2028" not in text
    words = {word for sentence in embedded(text)["sentences"] for word in sentence["words"]}
    assert words == set(WORDS)


def test_what_is_not_a_number_is_refused() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        as_json({"score": float("nan")})


@pytest.fixture
def opened(browser: Browser, report: dict[str, Any], tmp_path: Path) -> Iterator[Browser]:
    write_report(report, [], tmp_path / "out")
    browser.open((tmp_path / "out" / "index.html").as_uri())
    yield browser
    assert errors(browser) == []
    loaded = [m["params"]["request"]["url"] for m in browser.messages if m["method"] == "Network.requestWillBeSent"]
    assert all(url.startswith("file:") for url in loaded)


def visible(browser: Browser) -> list[str]:
    found: list[str] = browser.run(
        "[...document.querySelectorAll('[role=tabpanel]')].filter(p => !p.hidden).map(p => p.id)"
    )
    return found


@pytest.mark.slow
def test_tables_show_the_report(opened: Browser, report: dict[str, Any]) -> None:
    assert visible(opened) == ["panel-overview"]
    for row, decoder in zip(opened.texts("#table-accuracy tbody tr"), report["decoders"], strict=True):
        for key in ("uas", "las", "undirected_uas"):
            assert f"{decoder['accuracy'][key]:.2f}" in row
    names = [decoder["name"] for decoder in report["decoders"]]
    assert opened.texts("#table-against tbody th") == [name for name in names if name != report["reference"]]
    for row, decoder in zip(opened.texts("#table-against tbody tr"), report["decoders"][1:], strict=True):
        against = decoder["against_reference"]
        assert f"{against['scores_more']:.2f} / {against['scores_less']:.2f}" in row
        assert f"{against['gold_here_alone']:.2f} / {against['gold_there_alone']:.2f}" in row
    for row, decoder in zip(opened.texts("#table-search tbody tr"), report["decoders"], strict=True):
        assert f"{decoder['search']['mean_score']:.4f}".replace("-", "-") in row
    assert f"{report['about']['words']:,} words" in opened.texts("#subtitle")[0]


@pytest.mark.slow
def test_a_click_sorts_and_another_turns_around(opened: Browser, report: dict[str, Any]) -> None:
    names = [d["name"] for d in report["decoders"]]
    assert opened.texts("#table-accuracy tbody th") == names
    by_uas = sorted(report["decoders"], key=lambda d: -d["accuracy"]["uas"])
    opened.click("#table-accuracy th:nth-child(2) button")
    uas = [f"{d['accuracy']['uas']:.2f}" for d in by_uas]
    assert opened.texts("#table-accuracy tbody td:nth-child(2)") == uas
    assert opened.run("document.querySelector('#table-accuracy th:nth-child(2)').ariaSort") == "descending"
    opened.click("#table-accuracy th:nth-child(2) button")
    assert opened.texts("#table-accuracy tbody td:nth-child(2)") == uas[::-1]
    opened.click("#table-accuracy th:nth-child(1) button")
    assert opened.texts("#table-accuracy tbody th") == sorted(names)


@pytest.mark.slow
def test_tabs_by_mouse_and_keys(opened: Browser) -> None:
    for name in ("length", "analyses", "sentences", "about"):
        opened.click(f"#tab-{name}")
        assert visible(opened) == [f"panel-{name}"]
    opened.run("document.querySelector('#tab-about').focus()")
    opened.key("ArrowRight")
    assert visible(opened) == ["panel-overview"]
    opened.key("ArrowLeft")
    assert visible(opened) == ["panel-about"]
    assert opened.run("document.activeElement.id") == "tab-about"


@pytest.mark.slow
def test_plots_have_a_mark_for_each_figure(opened: Browser, report: dict[str, Any]) -> None:
    titles = opened.texts("#panel-overview figure title")
    assert [title.split(":")[0] for title in titles] == [d["name"] for d in report["decoders"]]
    opened.choose("#metric", "las")
    assert [
        f"{d['accuracy']['las']:.2f}" in t for d, t in zip(report["decoders"], opened.texts("#panel-overview title"))
    ]
    opened.click("#tab-analyses")
    restarts, dual, curve, pruning = opened.run(
        "[...document.querySelectorAll('#panel-analyses figure')].map(f => f.querySelectorAll('title').length)"
    )
    assert restarts == len(report["analyses"]["restarts"])
    assert dual == 2 * len(report["lengths"])
    assert curve == sum(len(method["iterations"]) for method in report["analyses"]["dual"]["methods"])
    assert pruning == 4  # one of the three settings is on both lines
    opened.click("#tab-length")
    assert len(opened.texts("#panel-length figure")) == 2


def disagreements(report: dict[str, Any]) -> list[dict[str, Any]]:
    """The sentences that the page lists at first; others have errors, but only one tree."""
    return [entry for entry in report["sentences"] if len(entry["trees"]) > 1]


@pytest.mark.slow
def test_sentences_are_filtered_and_paged(opened: Browser, report: dict[str, Any]) -> None:
    opened.click("#tab-sentences")
    entries = disagreements(report)
    assert opened.texts("#count")[0].endswith(f"of {len(entries)}")
    assert len(opened.texts("#list li")) == 12
    opened.click("button[aria-label='next page']")
    assert f"Sentence {entries[12]['number']} " in opened.texts("#detail")[0]

    opened.choose("#one", "0")
    opened.choose("#two", "1")
    pair = [e for e in entries if e["tree"][0] != e["tree"][1]]
    assert 0 < len(pair) < len(entries)
    assert opened.texts("#count")[0].endswith(f"of {len(pair)}")
    opened.choose("#from", "6", "input")
    opened.choose("#to", "9", "input")
    short = [e for e in pair if 6 <= len(e["words"]) <= 9]
    assert 0 < len(short) < len(pair)
    assert opened.texts("#count")[0].endswith(f"of {len(short)}")
    opened.choose("#text", "no such word", "input")
    assert opened.texts("#count") == ["none"]
    assert opened.texts("#detail") == ["No sentence matches."]


@pytest.mark.slow
def test_trees_are_drawn_and_the_next_sentence_is_one_key_away(opened: Browser, report: dict[str, Any]) -> None:
    opened.click("#tab-sentences")
    first, second = disagreements(report)[:2]
    assert opened.texts("#detail .tree:first-of-type .word") == first["words"]
    assert len(opened.texts("#detail section.tree")) == 1 + len(first["trees"])
    assert len(opened.texts("#detail section.tree path")) == len(first["words"]) * (1 + len(first["trees"]))
    differing = sum(len({t["heads"][i] for t in first["trees"]}) > 1 for i in range(len(first["words"])))
    marked = opened.texts("#detail section.tree:last-of-type g.right, #detail section.tree:last-of-type g.wrong")
    assert len(marked) == differing
    opened.click("#next")
    assert f"Sentence {second['number']} " in opened.texts("#detail")[0]
    opened.run("document.activeElement.blur()")
    opened.key("k")
    assert f"Sentence {first['number']} " in opened.texts("#detail")[0]
    opened.key("j")
    assert f"Sentence {second['number']} " in opened.texts("#detail")[0]
    assert opened.run("document.title") != "broken"
    assert opened.run("document.querySelector('#detail b')") is None


@pytest.mark.slow
def test_the_address_names_the_sentence(browser: Browser, report: dict[str, Any], tmp_path: Path) -> None:
    write_report(report, [], tmp_path / "out")
    number = report["sentences"][14]["number"]
    browser.open(f"{(tmp_path / 'out' / 'index.html').as_uri()}#sentences/{number}")
    assert visible(browser) == ["panel-sentences"]
    assert f"Sentence {number} " in browser.texts("#detail")[0]
    browser.click("#next")
    assert browser.run("location.hash") == f"#sentences/{report['sentences'][15]['number']}"
    browser.run("location.hash = '#sentences/no such'")
    assert errors(browser) == []


@pytest.mark.parametrize("system", ["light", "dark"])
@pytest.mark.slow
def test_light_and_dark(opened: Browser, system: str) -> None:
    opened.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": system}])
    opened.run("try { localStorage.clear() } catch {}; delete document.documentElement.dataset.theme")
    background = "getComputedStyle(document.body).backgroundColor"

    def is_dark() -> bool:
        return sum(map(int, re.findall(r"\d+", opened.run(background))[:3])) < 384

    assert is_dark() == (system == "dark")
    opened.click("#theme")
    assert is_dark() == (system == "light")
    opened.click("#theme")
    assert is_dark() == (system == "dark")


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.slow
def test_nothing_is_wider_than_the_screen(opened: Browser, width: int) -> None:
    opened.call("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=False)
    try:
        for name in ("overview", "length", "analyses", "sentences", "about"):
            opened.click(f"#tab-{name}")
            assert opened.run("document.documentElement.scrollWidth") <= width, name
    finally:
        opened.call("Emulation.clearDeviceMetricsOverride")


@pytest.mark.slow
def test_thousands_of_sentences_are_paged(browser: Browser, report: dict[str, Any], tmp_path: Path) -> None:
    many = [{**entry, "number": i + 1} for i, entry in enumerate(report["sentences"] * 150)]
    write_report({**report, "sentences": many}, [], tmp_path / "out")
    browser.open((tmp_path / "out" / "index.html").as_uri() + "#sentences")
    assert visible(browser) == ["panel-sentences"]
    assert len(browser.texts("#list li")) == 12
    assert browser.texts("#count")[0].endswith(f"of {150 * len(disagreements(report)):,}")
    assert browser.run("document.querySelectorAll('*').length") < 3000
    browser.choose("#order", "score")
    browser.click("#next")
    assert errors(browser) == []


@pytest.mark.slow
def test_what_went_wrong_stands_at_the_top(browser: Browser, report: dict[str, Any], tmp_path: Path) -> None:
    changed = json.loads(json.dumps(report))
    changed["decoders"][1]["speed"] |= {"failures": {"count": 2, "first": "<b>worn out"}, "words_per_second": None}
    changed["decoders"][1]["speed"] |= {"median_ms": None, "p99_ms": None, "with_scoring": None}
    changed["warnings"] = ["dev.conllu:1: a tree scores more"]
    write_report(changed, [], tmp_path / "out")
    browser.open((tmp_path / "out" / "index.html").as_uri())
    assert browser.texts("#notices p") == [
        "eisner failed in 2 timing runs, which its speed leaves out; the first: <b>worn out",
        "dev.conllu:1: a tree scores more",
    ]
    assert [title.split(":")[0] for title in browser.texts("#panel-overview figure title")] == ["mst", "ad3"]
    assert "–" in browser.texts("#table-speed tbody tr")[1]
    for tab in ("length", "analyses", "sentences", "about"):
        browser.click(f"#tab-{tab}")
    assert errors(browser) == []


@pytest.mark.slow
def test_without_disagreement(browser: Browser, report: dict[str, Any], tmp_path: Path) -> None:
    analyses = {"restarts": None, "dual": None, "pruning": None}
    write_report({**report, "sentences": [], "analyses": analyses}, [], tmp_path / "out")
    browser.open((tmp_path / "out" / "index.html").as_uri())
    browser.click("#tab-sentences")
    assert browser.texts("#panel-sentences") == ["All decoders found the right trees."]
    browser.click("#tab-analyses")
    assert "--full" in browser.texts("#panel-analyses")[0]
    assert errors(browser) == []
