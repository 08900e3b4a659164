"""The page of the service, in a browser."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from browser import Browser, errors
from serving import Server

TEXT = "The old painter saw a clock in the garden."


def heads(browser: Browser, row: int = 0) -> list[int]:
    """Heads of the tree of a row, as its table has them."""
    browser.run(f"document.querySelectorAll('#trees details')[{row}].open = true")
    settle(browser)
    table = f"document.querySelectorAll('#trees details')[{row}].querySelectorAll('tbody tr')"
    cells = browser.run(f"[...{table}].map(row => +row.cells[3].textContent)")
    assert cells
    found: list[int] = cells
    return found


READY = "typeof id === 'function' && id('status').textContent !== 'parsing …' && !id('view').hidden"


def settle(browser: Browser) -> None:
    """Wait until the page shows trees."""
    for _ in range(1200):
        time.sleep(0.05)
        if browser.run(READY):
            return
    raise AssertionError("the page shows no trees")


@pytest.fixture
def opened(browser: Browser, server: Server) -> Iterator[Browser]:
    state = quote(json.dumps(["mst", "eisner"]))
    browser.open(f"{server.url}/#text={quote(TEXT)}&decoders={state}&k=3")
    browser.run("location.reload()")  # an address that differs behind the # only is not loaded again
    time.sleep(0.5)
    settle(browser)
    yield browser
    assert errors(browser) == []
    loaded = [m["params"]["request"]["url"] for m in browser.messages if m["method"] == "Network.requestWillBeSent"]
    assert all(url.startswith((server.url, "data:")) for url in loaded)


def api(server: Server, **body: Any) -> list[dict[str, Any]]:
    trees: list[dict[str, Any]] = server.parse(text=TEXT, **body)["sentences"][0]["trees"]
    return trees


@pytest.mark.slow
def test_trees_of_decoders_are_drawn(opened: Browser, server: Server) -> None:
    assert opened.texts("#trees h3")[0].startswith("mst‹1 of 3")
    assert opened.texts("#trees section:first-child .word")[0].startswith("The")
    expected = api(server, decoders=["mst", "eisner"])
    assert heads(opened, 0) == expected[0]["heads"]
    assert heads(opened, 1) == expected[1]["heads"]
    differs = sum(a != b for a, b in zip(expected[0]["heads"], expected[1]["heads"], strict=True))
    assert len(opened.texts("#trees section:first-child g.differs")) == differs
    assert "provably optimal" in opened.texts("#trees .facts")[0]


@pytest.mark.slow
def test_the_k_best_are_leafed_through(opened: Browser, server: Server) -> None:
    expected = [tree["heads"] for tree in api(server, decoders=["mst"], k_best=3)]
    for rank in (1, 2):
        opened.click("button[aria-label='next tree']")
        assert heads(opened) == expected[rank]
        assert opened.run("document.activeElement.getAttribute('aria-label')") in ("next tree", None)
    opened.click("button[aria-label='previous tree']")
    assert heads(opened) == expected[1]


@pytest.mark.slow
def test_arcs_are_required_and_forbidden(opened: Browser, server: Server) -> None:
    before = heads(opened)
    word = next(m for m, head in enumerate(before, 1) if head not in (0, 9))
    click = "document.querySelector('#trees .word[data-word=\"{}\"]').dispatchEvent(new MouseEvent('click'))"
    opened.run(click.format(word))
    opened.run(click.format(9))
    opened.click("#require")
    time.sleep(0.3)
    settle(opened)
    assert heads(opened)[word - 1] == 9
    known = [{"heads": {str(word): 9}}]
    assert heads(opened) == api(server, decoders=["mst"], known=known)[0]["heads"]
    assert len(opened.texts("#trees section:first-child g.known")) == 1
    shared = opened.run("location.href")
    opened.open("about:blank")
    opened.open(shared)  # the link shows the same
    settle(opened)
    assert heads(opened)[word - 1] == 9
    opened.click("#known button")
    time.sleep(0.3)
    settle(opened)
    assert heads(opened) == before
    opened.run(f"document.querySelector('#trees g[data-word=\"{word}\"]').dispatchEvent(new MouseEvent('click'))")
    opened.click("#forbid")
    time.sleep(0.3)
    settle(opened)
    assert heads(opened)[word - 1] != before[word - 1]


@pytest.mark.slow
def test_by_keyboard_only(opened: Browser) -> None:
    opened.run("document.querySelector('#trees .word').focus()")
    opened.key("ArrowRight")
    assert opened.run("document.activeElement.dataset.word") == "2"
    opened.key("Enter")
    assert "head of old" in opened.texts("#picked")[0]
    opened.key("Escape")
    assert opened.run("id('picked').hidden")
    label = opened.run("document.activeElement.getAttribute('aria-label')")
    assert label.startswith("word 2, old: ")


@pytest.mark.slow
def test_gold_trees_and_copies(opened: Browser) -> None:
    opened.click("#trees .copies button")
    conllu = opened.run("document.querySelector('dialog textarea').value")
    assert conllu.splitlines()[-2].count("\t") == 9
    opened.click("dialog button")
    opened.run("document.querySelectorAll('#trees .copies button')[1].click()")
    picture = opened.run("document.querySelector('dialog textarea').value")
    assert picture.startswith("<svg")
    assert "stroke" in picture
    opened.click("dialog button")
    opened.run("document.querySelectorAll('#trees .copies button')[2].click()")
    latex = opened.run("document.querySelector('dialog textarea').value")
    assert latex.count("\\depedge") + latex.count("\\deproot") == 10
    opened.click("dialog button")
    opened.run("id('gold').value = " + json.dumps(conllu))
    opened.click("#form button[type=submit]")
    time.sleep(0.3)
    settle(opened)
    assert opened.texts("#trees h3")[0] == "gold"
    assert any(facts.startswith("UAS 100.0 %, LAS 100.0 %") for facts in opened.texts("#trees .facts"))


@pytest.mark.slow
def test_markup_stays_text_and_right_to_left_runs_to_the_left(opened: Browser) -> None:
    opened.run("id('text').value = '<b>ראה</b> הכלב את <script>alert(1)</script> הגן'")
    opened.click("#form button[type=submit]")
    time.sleep(0.3)
    settle(opened)
    assert opened.run("document.querySelectorAll('#view b, #view script').length") == 0
    opened.run("id('text').value = 'ראה הכלב את הגן'")
    opened.click("#form button[type=submit]")
    time.sleep(0.3)
    settle(opened)
    places = opened.run(
        "[...document.querySelectorAll('#trees section:first-child .word')].map(w => +w.getAttribute('x'))"
    )
    assert places == sorted(places, reverse=True)
    opened.run("id('text').value = ''")
    opened.click("#form button[type=submit]")
    time.sleep(1)
    assert "contains no words" in opened.texts("#notices")[0]
    opened.messages[:] = [m for m in opened.messages if "422" not in json.dumps(m)]  # Chromium logs it as an error
