from pathlib import Path

import pytest
import yaml

from arbora.decoders import AD3, MST, Greedy, HillClimbing, MinimumRisk, find_decoder
from arbora.decoders.names import decoder_classes, name_of, named_decoders, read_decoders


def test_one_decoder_in_any_spelling(tmp_path: Path) -> None:
    for text in ("ad3(max_iterations=50)", "AD3(max_iterations=50)", "arbora.decoders.AD3( max_iterations = 50 )"):
        assert find_decoder(text) == AD3(max_iterations=50)
    path = tmp_path / "tuned.yaml"
    path.write_text(yaml.safe_dump({"class_path": "AD3", "init_args": {"max_iterations": 50}}), encoding="utf-8")
    assert find_decoder(str(path)) == AD3(max_iterations=50)
    assert find_decoder(str(path), settings={"rho": "0.5"}) == AD3(max_iterations=50, rho=0.5)
    assert find_decoder("minimum_risk(decoder=ad3(rho=2), k=3)") == MinimumRisk(decoder=AD3(rho=2.0), k=3)


def test_own_is_the_decoder_of_the_parser_with_its_settings() -> None:
    own = HillClimbing(restarts=None, patience=7)
    assert find_decoder("own", own) is own
    assert find_decoder("own(patience=8)", own) == HillClimbing(restarts=None, patience=8)
    assert find_decoder("own", own, {"start": "best"}) == HillClimbing(restarts=None, patience=7, start="best")
    assert named_decoders("own,mst", own) == {"own": own, "mst": MST()}
    with pytest.raises(ValueError, match="own is the decoder of a trained parser, and there is none here"):
        find_decoder("own")


def test_names_are_read_back() -> None:
    for kind in decoder_classes().values():
        if kind.__module__.startswith("arbora."):
            assert find_decoder(name_of(kind())) == kind()
    changed = [Greedy(alpha=0.125, partial=False), AD3(rho=0.5), MinimumRisk(decoder=HillClimbing(start="best"), k=4)]
    assert [find_decoder(name_of(decoder)) for decoder in changed] == changed
    assert name_of(AD3(max_iterations=50)) == "ad3(max_iterations=50)"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mst,ad3", "names 2 decoders, where one is needed"),
        ("hill_climbing(start=worst)", "start must be one of uniform, first_order, best, got 'worst'"),
        ("mst(single_root=maybe)", "single_root must be True or False, got 'maybe'"),
        ("ad3(max_iterations=1.5)", "max_iterations must be an integer from 0 to 2147483647, got '1.5'"),
    ],
)
def test_names_that_are_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        find_decoder(text)


def test_a_file_with_the_same_name_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "two.yaml"
    path.write_text("- class_path: MST\n- class_path: mst\n", encoding="utf-8")
    with pytest.raises(ValueError, match="two decoders are named mst"):
        read_decoders(path)
