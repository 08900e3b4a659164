"""The parsers that are trained have the settings of the files in `configs/`."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from arbora.model.pruners.settings import Vine
from arbora.reproduction import ad3, greedy, hill_climbing, parsers, vine

CONFIGS = Path(__file__).parents[2] / "configs"


def read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((CONFIGS / name).read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize(
    ("file", "settings"),
    [
        ("small_tagged.yaml", hill_climbing.MODELS["heads"]),
        ("small_tagged.yaml", ad3.MODELS["first"]),
        ("second_order_tagged.yaml", greedy.MODELS["second"]),
        ("second_order_tagged.yaml", ad3.MODELS["second"]),
        ("third_order_tagged.yaml", ad3.MODELS["third"]),
        ("hill_climbing_paper.yaml", hill_climbing.MODELS["full"]),
    ],
)
def test_parsers_are_those_of_the_files(file: str, settings: dict[str, Any]) -> None:
    config = read(file)
    assert config["model"] == settings
    assert config["data"]["max_tokens"] == parsers.MAX_TOKENS
    assert config["trainer"]["max_epochs"] == parsers.EPOCHS


@pytest.mark.parametrize("models", [greedy.MODELS, greedy.LINEAR])
def test_parsers_of_the_greedy_paper_learn_through_their_own_search(models: dict[str, dict[str, Any]]) -> None:
    for name, settings in models.items():
        order, _, search = name.partition("_")
        its = settings.get("linear", settings.get("parts", {"kinds": []}))["kinds"]
        assert its == {"first": [], "second": ["grandparent"] if search else ["grandparent", "sibling"]}[order]
        if search:
            assert settings["decoder"]["class_path"] == "Greedy"
            assert settings["decoder"]["init_args"]["partial"] is (search == "greedy")
            assert "training_decoder" not in settings


def test_the_second_order_of_the_climbing_paper_has_fewer_kinds_and_no_tree_features() -> None:
    full, second, third = (hill_climbing.MODELS[name] for name in ("full", "second", "third"))
    assert third == second | {"parts": {"kinds": parsers.THIRD_ORDER}}
    assert second == {**{name: full[name] for name in full if name != "features"}, "parts": second["parts"]}
    assert second["parts"] == {"kinds": ["grandparent", "sibling"]}


def test_the_third_order_of_the_vine_paper_is_that_of_the_file_but_for_its_pruner() -> None:
    settings = read("vine_cascade.yaml")["model"]
    del settings["pruner"]
    assert settings == vine.MODELS["third"]


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("local_short.yaml", "LOCALSHORT"),
        ("local.yaml", "LOCAL"),
        ("first_only.yaml", "FIRSTONLY"),
        ("first_and_second.yaml", "FIRSTANDSECOND"),
        ("vine_posterior.yaml", "VINEPOSTERIOR"),
        ("vine_odds.yaml", "VINEODDS"),
        ("vine_own.yaml", "VINEOWN"),
        ("vine_cascade.yaml", "VINECASCADE"),
    ],
)
def test_pruners_are_those_of_the_files_at_third_order(file: str, name: str) -> None:
    assert read(f"pruners/{file}")["model"]["pruner"] == vine.learnt(3)[name]


def test_cascades_have_a_stage_more_for_each_order() -> None:
    stages = {order: vine.learnt(order)["VINECASCADE"]["init_args"]["stages"] for order in (1, 2, 3)}
    assert stages == {
        1: ["dictionary", "vine"],
        2: ["dictionary", "vine", "first"],
        3: ["dictionary", "vine", "first", "second"],
    }
    assert "FIRSTANDSECOND" in vine.learnt(3)
    assert "FIRSTANDSECOND" not in vine.learnt(2)
    for order in (1, 2, 3):
        for pruner in vine.learnt(order).values():
            Vine(**{**pruner["init_args"], "stages": tuple(pruner["init_args"]["stages"])})
