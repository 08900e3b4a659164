import pytest
from hypothesis import given
from hypothesis import strategies as st

from arbora.data.lemma_rules import LONGEST, apply_rule, lemma_rule

LETTERS = st.text("aábBİIıißſ'-1 +>|=:U", min_size=1, max_size=12)


@given(LETTERS, LETTERS)
def test_the_rule_of_a_pair_gives_its_lemma(form: str, lemma: str) -> None:
    assert apply_rule(form, lemma_rule(form, lemma)) == lemma


@given(st.text(min_size=1, max_size=30), st.text(min_size=1, max_size=30))
def test_any_character_is_legal(form: str, lemma: str) -> None:
    assert apply_rule(form, lemma_rule(form, lemma)) == lemma


@given(LETTERS, LETTERS, LETTERS)
def test_a_rule_gives_a_lemma_of_any_other_form_or_none(form: str, lemma: str, other: str) -> None:
    found = apply_rule(other, lemma_rule(form, lemma))
    assert found is None or found


@pytest.mark.parametrize(
    ("form", "lemma", "other", "expected"),
    [
        ("walked", "walk", "jumped", "jump"),
        ("Walked", "walk", "JUMPED", "jump"),
        ("getragen", "tragen", "gefahren", "fahren"),
        ("london", "London", "paris", "Paris"),
        ("MICE", "mouse", "lice", "louse"),
        ("McDonalds", "McDonald", "mcgregors", "McGregor"),
        ("cats", "cat", "s", None),
        ("went", "go", "anything", "go"),
        ("İstanbul'da", "İstanbul", "İzmir'da", "İzmir"),
        ("Kıbrısta", "Kıbrıs", "Mıstırta", "Mıstır"),
        ("Γιάννη", "Γιάννης", "Νίκο", "Νίκος"),
        ("1990s", "1990", "80s", "80"),
        ("USA's", "USA", "nato's", "NATO"),
    ],
)
def test_rules_carry_over(form: str, lemma: str, other: str, expected: str | None) -> None:
    assert apply_rule(other, lemma_rule(form, lemma)) == expected


def test_words_of_one_paradigm_share_a_rule() -> None:
    assert len({lemma_rule(form, form.lower()[:-1]) for form in ("Dogs", "cats", "BIRDS")}) == 1


def test_a_very_long_word_is_not_compared() -> None:
    lemma = "x" * LONGEST
    assert lemma_rule(lemma + "s", lemma) == f"={lemma}"
