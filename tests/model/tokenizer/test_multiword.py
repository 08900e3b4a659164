import pytest

from arbora.model.tokenizer.multiword import MultiwordTokens, apply_rule, find_rule

SEEN = [
    ("it's", ["it", "'s"]),
    ("dog's", ["dog", "'s"]),
    ("I'm", ["I", "'m"]),
    ("cannot", ["can", "not"]),
    ("gimme", ["gim", "me"]),
    ("don't", ["do", "n't"]),
    ("στο", ["σε", "το"]),
    ("du", ["de", "le"]),
]


@pytest.mark.parametrize(("token", "words"), SEEN)
@pytest.mark.parametrize("from_end", [True, False])
def test_a_rule_makes_its_own_words(token: str, words: list[str], from_end: bool) -> None:
    assert apply_rule(find_rule(token, words, from_end), token) == words


def test_a_rule_that_does_not_fit() -> None:
    assert apply_rule(find_rule("dog's", ["dog", "'s"], from_end=True), "s") is None
    assert apply_rule(find_rule("cannot", ["can", "not"], from_end=False), "ca") is None


@pytest.mark.parametrize(
    ("token", "words"),
    [
        *SEEN,
        ("Στο", ["Σε", "το"]),
        ("CANNOT", ["CAN", "NOT"]),
        ("Bill's", ["Bill", "'s"]),
        ("couldn't", ["could", "n't"]),
        ("xyz", None),
    ],
)
def test_tokens_are_split_by_the_dictionary_or_by_those_alike(token: str, words: list[str] | None) -> None:
    tokens = MultiwordTokens.of(SEEN)
    assert tokens.split(token) == words
    assert MultiwordTokens.from_json(tokens.as_json()).split(token) == words


def test_prefixes_count_too() -> None:
    tokens = MultiwordTokens.of([("wkatab", ["w", "katab"]), ("wbayt", ["w", "bayt"]), ("wqalam", ["w", "qalam"])])
    assert tokens.split("wmaktab") == ["w", "maktab"]
    assert len(tokens.rules) == 1


def test_no_multiword_tokens() -> None:
    assert MultiwordTokens.of([]).split("word") is None


def test_the_usual_way_to_split_a_token() -> None:
    tokens = MultiwordTokens.of([("das", ["d", "as"]), ("das", ["de", "as"]), ("das", ["de", "as"])])
    assert tokens.split("das") == ["de", "as"]


def test_rules_that_are_not_there() -> None:
    with pytest.raises(ValueError, match="names unknown rules"):
        MultiwordTokens.from_json('{"rules": [], "dictionary": {"a": 0}}')
