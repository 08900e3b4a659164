"""Each paper with a tiny budget: the tables are there, and their figures are those of the other commands."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from parsing import score

from arbora.cli import main
from arbora.data.conll import read_conll
from arbora.decoders import Subgradient
from arbora.decoders.dual.branch_and_bound import BranchAndBound
from arbora.evaluation import evaluate_files
from arbora.model.linear.storage import read_linear
from arbora.model.loading import load_network
from arbora.model.storage.files import is_linear
from arbora.reproduction import BUDGETS, LINEAR_PAPERS, PAPERS, ad3, hill_climbing, parsers, vine, vine_linear

TINY = replace(BUDGETS["quick"], epochs=1, pruner_epochs=1, limit=None, restarts=10, patience=3, trials=4, sample=15)


TABLE_3 = "dual decomposition and hill-climbing"


@dataclass
class Done:
    """A run that is done."""

    run: Path
    treebank: Path
    report: dict[str, Any]

    def model(self, name: str) -> Path:
        folder = self.run / "models" / f"{name}-1"  # with a learnt pruner, a network's last checkpoint counts
        return folder / ("last.ckpt" if "-" in name and (folder / "last.ckpt").exists() else "best.ckpt")

    def uas(self, model: str, folder: Path, *options: str) -> float:
        """As `arbora predict` and `arbora evaluate` have it."""
        gold, parsed = self.treebank / "test.conllu", folder / f"{model}.conllu"
        main(["predict", str(self.model(model)), str(gold), "-o", str(parsed), "--quiet", *options])
        return float(evaluate_files(gold, parsed).figures()["uas"])

    @property
    def results(self) -> dict[str, Any]:
        found: dict[str, Any] = self.report["results"]["1"]
        return found

    def table(self, start: str) -> dict[str, list[str]]:
        """Rows of a table by their first cells."""
        (table,) = (table for table in self.report["tables"] if table["title"].startswith(start))
        return {row[0]: row[1:] for row in table["rows"]}


@pytest.fixture(scope="module")
def done(treebank: Path, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Done]:
    folder = tmp_path_factory.mktemp("runs") / "run"
    paper, *options = request.param.split()
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(BUDGETS, "quick", TINY)
        patch.setattr(hill_climbing, "SPEED_RESTARTS", (1, 3))
        patch.setattr(hill_climbing, "SPEED_PATIENCE", (2,))
        patch.setattr(hill_climbing, "OPTIMA_RESTARTS", 5)
        patch.setitem(ad3.DECODERS, ad3.EXACT, BranchAndBound(seconds=0.01))
        patch.setattr(ad3, "STEPS", (None, 1.0, 3.0))
        few = {order: {name: vine.learnt(order)[name] for name in ("VINEOWN", "VINECASCADE")} for order in (1, 2, 3)}
        patch.setattr(vine, "learnt", few.__getitem__)
        patch.setattr(vine, "TIMED", ("VINECASCADE", "VINEOWN"))
        patch.setattr(vine, "LENGTHS", (10, 15))
        patch.setattr(vine, "PIECES", 100)
        patch.setattr(vine, "BATCHES", (100, 4000))
        patch.setattr(vine, "DENSE_BATCHES", (50, 100))
        patch.setattr(vine_linear, "BATCHES", (100, 4000))
        patch.setattr(vine_linear, "DENSE_BATCHES", (50, 100))
        patch.setattr(vine_linear, "LENGTHS", (10, 15))
        patch.setattr(vine_linear, "PIECES", 100)
        command = ["reproduce", paper, *options, "--treebank", str(treebank), "--budget", "quick", "--longest", "15"]
        command += ["--pruner", "error=0.01"] * (request.param == "vine")
        main([*command, "--run", str(folder), "--quiet"])
        yield Done(folder, treebank, json.loads((folder / "report.json").read_text(encoding="utf-8")))


@pytest.mark.parametrize("done", ["greedy"], indirect=True)
class TestGreedy:
    def test_figures_are_those_of_predict_and_evaluate(self, done: Done, tmp_path: Path) -> None:
        for order in ("first", "second"):
            own = done.results[f"own-{order}"]
            rows = own["parsers"][0]["alone"]
            settings = [f"--decoder.{name}={own['tuned']['alone'][name]}" for name in ("alpha", "beta")]
            found = done.uas(f"{order}_greedy", tmp_path, "--decoder", "Greedy", *settings)
            assert rows["BGI-PP + i + b"]["uas"] == found
            assert rows["exact"]["uas"] == done.uas(order, tmp_path)
            assert rows["BGI"]["uas"] == done.uas(f"{order}_basic", tmp_path)

    def test_ensembles_are_those_of_predict(self, done: Done, tmp_path: Path) -> None:
        own = done.results["own-second"]
        tuned, rows = own["tuned"]["ensemble"], own["parsers"][0]["ensemble"]
        done.uas("second", tmp_path)
        options = ["--ensemble", str(tmp_path / "second.conllu")]
        options += ["--ensemble.gamma", ",".join(map(str, tuned["gamma"])), "--decoder", "Greedy"]
        options += [f"--decoder.{name}={tuned[name]}" for name in ("alpha", "beta")]
        assert rows["BGI-PP + i + b"]["uas"] == done.uas("second_greedy", tmp_path, *options)

    def test_settings_are_no_worse_on_the_development_part(self, done: Done) -> None:
        for order in ("first", "second"):
            for step in ("own", "samples"):
                for kind, gammas in (("alone", 0), ("ensemble", 1 + (order == "second"))):
                    tuned = done.results[f"{step}-{order}"]["tuned"][kind]
                    assert tuned["uas"] >= tuned["uas_before"]
                    assert len(tuned["gamma"]) == gammas

    def test_arcs_are_shared_with_the_parser_of_the_same_order(self, done: Done) -> None:
        for order in ("first", "second"):
            (found,) = done.results[f"own-{order}"]["parsers"]
            assert found["alone"]["exact"]["sarc"] == 100
            assert all(0 < row["sarc"] <= 100 for rows in found.values() for row in rows.values())
            for name, row in {**found["alone"], **found["ensemble"]}.items():
                more = row["gold_here_alone"] - row["gold_there_alone"]
                assert row["uas"] - found["alone"]["exact"]["uas"] == pytest.approx(more), name
            ensemble, exact = found["ensemble"]["BGI-PP"], found["alone"]["exact"]
            assert ensemble["words_per_second"] < exact["words_per_second"]

    def test_citeds_stand_next_to_ours(self, done: Done) -> None:
        rows = done.table("Table 1 (a), individual models")
        ours = done.results["own-second"]["parsers"][0]["alone"]["BGI-PP + i + b"]
        assert rows["second order, BGI-PP + i + b"][:2] == [f"{ours['uas']:.2f}", "89.25"]
        assert rows["second order, BGI-PP + i + b"][8] == "1.60 / 2.60"
        assert rows["first order, BGI-PP"][10] == "5,681"
        assert done.table("Table 1 (a), ensembles")["second order, BGI-PP"][5] == "99.54"
        assert done.table("Table 1 (b), individual models")["first order, exact"][1] == "78.99"
        assert done.table("Table 1 (b), ensembles")["first order, BGI-PP + i + b"][-1] == "0.33"

    def test_samples_are_drawn_from_the_training_part(self, done: Done) -> None:
        every = [sentence.form for sentence in read_conll(done.treebank / "train.conllu")]
        some = [sentence.form for sentence in read_conll(done.run / "treebank" / "sample0-1.conllu")]
        assert len(some) == TINY.sample < len(every)
        assert all(form in every for form in some)
        assert some != every[: len(some)]
        asked = (done.model("second_greedy_sample0").parent / "asked.yaml").read_text(encoding="utf-8")
        assert "sample0-1.conllu" in asked

    def test_no_way_of_search_beats_the_exact_one(self, done: Done) -> None:
        for order in ("first", "second"):
            decoders = done.results[f"same-{order}"]["decoders"]
            exact = decoders["exact"]["search"]["mean_score"]
            assert all(entry["search"]["mean_score"] <= exact + 1e-6 for entry in decoders.values())
            assert decoders["exact"]["against_reference"]["shared_arcs"] == 100

    def test_runs_are_put_together(self, done: Done, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        other = json.loads((done.run / "report.json").read_text(encoding="utf-8"))
        other["settings"]["treebank"] = "somewhere/other"
        other["results"]["1"]["own-first"]["parsers"][0]["alone"]["exact"]["uas"] = 0.0
        (tmp_path / "report.json").write_text(json.dumps(other), encoding="utf-8")
        main(["reproduce", "greedy", "--summary", str(done.run), str(tmp_path), "--json"])
        (table,) = json.loads(capsys.readouterr().out)["tables"]
        rows = {row[0]: row[1:] for row in table["rows"]}
        uas = done.results["own-first"]["parsers"][0]["alone"]["exact"]["uas"]
        assert rows["other"][0] == "0.00"
        assert rows[done.treebank.name][0] == f"{uas:.2f}"
        assert rows["mean of these"][0] == f"{uas / 2:.2f}"
        assert rows["Swedish (paper)"][-1] == "89.29"

    def test_the_report_says_where_it_comes_from(self, done: Done) -> None:
        text = (done.run / "report.md").read_text(encoding="utf-8")
        assert text.startswith(f"# greedy, {done.treebank.name}\n")
        for part in ("`arbora reproduce greedy --treebank", "seeds 1;", "cores", "numba", "(paper)", "8 languages"):
            assert part in text


@pytest.mark.parametrize("done", ["hill-climbing"], indirect=True)
class TestHillClimbing:
    def test_figures_are_those_of_predict_and_evaluate(self, done: Done, tmp_path: Path) -> None:
        best = ("--decoder", "HillClimbing", "--decoder.start", "best")
        assert done.results["starts"]["best"]["uas"] == done.uas("full", tmp_path, *best)
        assert done.results["orders"]["exact, first order"]["uas"] == done.uas("exact", tmp_path)
        assert done.results["orders"]["climbing, first order"]["uas"] == done.uas("climbed", tmp_path)

    def test_heads_by_themselves_need_not_be_trees(self, done: Done) -> None:
        found = done.results["heads"]
        assert found["trees"] == done.results["orders"]["exact, first order"]["uas"]
        parser, right, words = load_network(done.model("heads")), 0, 0
        for batch in score(parser, read_conll(done.treebank / "test.conllu")):
            for b, sentence in enumerate(batch.sentences):
                arcs = slice(*batch.parts.sentence_offsets[b : b + 2])
                dense = np.full((len(sentence) + 1, len(sentence) + 1), -np.inf)
                dense[batch.parts.modifier[arcs], batch.parts.head[arcs]] = batch.parts.arc_score[arcs]
                right += int((dense[1:].argmax(1) == np.array(sentence.head)).sum())
                words += len(sentence)
        assert found["heads"] == pytest.approx(100 * right / words)

    def test_more_restarts_find_no_worse_trees(self, done: Done) -> None:
        found = done.results["restarts"]
        assert (found["most"], found["within"]) == (10, 1)
        for start in hill_climbing.STARTS:
            shares = [point["best"] for point in found[start]["curve"]]
            assert shares == sorted(shares)
            assert [point["restarts"] for point in found[start]["curve"]] == [1, 2, 5, 10]
            assert found[start]["within"]["all"] <= 100

    def test_starts_are_as_good_as_they_are_drawn(self, done: Done, tmp_path: Path) -> None:
        """The best tree by arcs is what `MST` finds under the arc scores of the full model."""
        starts = done.results["starts"]
        assert starts["best"]["restarts"] == 1
        assert all(row["restarts"] > 3 for name, row in starts.items() if name != "best")
        assert all(0 < row["initial_uas"] < 100 for row in starts.values())

    def test_parsers_learn_with_the_search_that_their_row_names(self, done: Done) -> None:
        found = {name: load_network(done.model(name)) for name in hill_climbing.MODELS}
        decoders = {name: type(parser.settings["decoder"]).__name__ for name, parser in found.items()}
        climbs = dict.fromkeys(("climbed", "second", "third", "full"), "HillClimbing")
        assert decoders == {"heads": "MST", "exact": "MST", "dual": "Subgradient", **climbs}

    def test_gains_by_length_add_up(self, done: Done) -> None:
        rows = done.results["orders"]
        lengths = [len(sentence) for sentence in read_conll(done.treebank / "test.conllu")]
        short = sum(n for n in lengths if n <= hill_climbing.SHORT) / sum(lengths)
        for row in rows.values():
            whole = short * row["short"] + (1 - short) * row["long"]
            assert row["uas"] == pytest.approx(whole) == pytest.approx(row["all"])
        gain = rows["climbing, full"]["long"] - rows["climbing, first order"]["long"]
        assert done.table("Figure 4")["climbing, full"][1] == f"{gain:,.2f}"

    def test_certified_trees_are_found_by_climbing_or_not(self, done: Done) -> None:
        for trained in ("climbing", "dual"):
            for row in done.results[trained].values():
                assert row["above"] + row["equal"] + row["below"] == pytest.approx(100)
                if row["certified"] == 100:
                    assert row["equal_if_certified"] == row["equal"]

    def test_speed_is_by_restarts_and_by_patience(self, done: Done) -> None:
        ways = [(row["start"], row["stop"]) for row in done.results["speed"]]
        each = ("1 climb", "3 climbs", "patience 2")
        assert ways == [("best", "1 climb"), *((start, stop) for start in hill_climbing.STARTS for stop in each)]

    def test_citeds_stand_next_to_ours(self, done: Done) -> None:
        assert done.table("Table 1")["Average (paper)"] == ["86.9", "87.3", "–"]
        assert done.table("Table 2")["English (paper)"][1:4] == ["21", "121", "2443"]
        by_climbing, by_dual = (
            done.table(f"Table 3: {TABLE_3}, trained with {way}") for way in ("hill-climbing", "dual")
        )
        assert by_climbing["Arabic (paper)"] == ["78.8", "3.4", "93.9", "2.7", "> 99"]
        assert by_dual["Arabic (paper)"][:4] == ["75.3", "4.7", "88.4", "6.9"]
        assert done.table("Table 4")["climbing, full"][-2:] == ["89.44", "76.68"]
        assert done.table("Table 5")["uniform trees"][-1] == "25.9 / 88.0"
        assert done.table("Table 6")["Slovene (paper)"] == ["100.00", "98.11"]


@pytest.mark.parametrize("done", ["ad3"], indirect=True)
class TestAD3:
    def test_figures_are_those_of_predict_and_evaluate(self, done: Done, tmp_path: Path) -> None:
        ours = done.results["third"]["decoders"]["AD3"]["accuracy"]["uas"]
        assert ours == done.uas("third", tmp_path, "--decoder", "AD3")

    def test_the_best_step_of_a_sentence_is_no_worse_than_the_tuned_one(self, done: Done) -> None:
        for order in list(ad3.NAMES)[1:]:
            one, best = (done.results[order]["decoders"][name] for name in (ad3.TUNED, ad3.BEST_STEP))
            assert best["search"]["certified"] >= one["search"]["certified"]
            assert best["counters"]["iterations"] <= one["counters"]["iterations"]

    def test_the_step_is_tuned_on_the_development_part(self, done: Done) -> None:
        for order in list(ad3.NAMES)[1:]:
            found = json.loads((done.run / "steps" / f"step-{order}-1.json").read_text(encoding="utf-8"))
            assert found["iterations"][found["steps"].index(found["best"])] == min(found["iterations"])
            assert done.results[order]["decoders"][ad3.TUNED]["settings"]["step"] == found["best"]
        dev = score(load_network(done.model("third")), read_conll(done.treebank / "dev.conllu"))
        third = json.loads((done.run / "steps" / "step-third-1.json").read_text(encoding="utf-8"))
        counts = [Subgradient(step=third["best"])(batch.parts).counters["iterations"] for batch in dev]
        assert np.concatenate(counts).mean() == pytest.approx(min(third["iterations"]))

    def test_proofs_and_iterations_are_there(self, done: Done) -> None:
        for order in list(ad3.NAMES)[1:]:
            for method in ("AD3", ad3.KEPT):
                entry = done.results[order]["decoders"][method]
                assert entry["search"]["certified"] <= entry["search"]["integral"] + 1e-9
                assert entry["counters"]["iterations"] >= 0
                assert entry["score"] <= 100 + 1e-6
            assert done.results[order]["decoders"][ad3.KEPT]["settings"]["drop_arcs"] is False

    def test_one_parser_of_third_order_learns_from_fractional_solutions(self, done: Done) -> None:
        path = done.run / "models" / "relaxed-1" / "asked.yaml"
        assert yaml.safe_load(path.read_text())["model"]["training_decoder"] == parsers.RELAXATION

    def test_each_factor_adds_parts(self, done: Done) -> None:
        rows = done.results["factors"]
        counts = [row["parts"] for row in rows.values()]
        assert counts[0] == 0
        assert counts == sorted(set(counts))
        assert rows["arcs"]["certified"] == 100
        whole = done.results["third"]["decoders"][ad3.KEPT]
        assert rows["+ tri-siblings"]["iterations"] == pytest.approx(whole["counters"]["iterations"])

    def test_times_by_length_have_a_sum(self, done: Done) -> None:
        figure = done.table("Figure 2: AD3 and the subgradient method by length, third order")
        entry = done.results["third"]["decoders"][ad3.KEPT]
        groups, every = [row for row in entry["by_length"][:-1] if row], entry["by_length"][-1]
        mean = sum(row["mean_ms"] * row["sentences"] for row in groups) / sum(row["sentences"] for row in groups)
        assert every["mean_ms"] == pytest.approx(mean)
        assert figure["all"][2] == f"{mean:.3f}"
        tuned = done.results["third"]["decoders"][ad3.TUNED]["by_length"][-1]["mean_ms"]
        assert figure["all"][5] == f"{tuned / mean:.2f}"
        assert list(done.table("Speed by length")) == list(figure)

    def test_citeds_stand_next_to_ours(self, done: Done) -> None:
        assert done.table("Table 2")["third order"][2] == "93.29"
        assert done.table("Table 2")["learnt from fractional solutions, third order"][2] == "93.29"
        assert done.table("Table 2")["second order"][5] == "1,338"
        assert done.table("Table 3")["Turkish (paper)"] == ["75.98", "6,418", "76.50", "1,721", "76.90", "793"]
        assert done.table("Certificates")["third order, AD3, all arcs kept"][2] == "≈ 95"


@pytest.mark.parametrize("done", ["vine"], indirect=True)
class TestVine:
    @pytest.mark.parametrize("order", ["first", "third"])
    def test_figures_are_those_of_predict_and_evaluate(self, done: Done, tmp_path: Path, order: str) -> None:
        ours = done.results[order]["setups"]["VINECASCADE"]
        assert ours["uas"] == done.uas(f"{order}-vinecascade", tmp_path)
        assert ours["longest"] is None

    def test_set_ups_leave_fewer_and_fewer_arcs(self, done: Done) -> None:
        for order in vine.ORDERS:
            setups = done.results[order]["setups"]
            assert setups["NOPRUNE"]["efficiency"] == 0
            assert setups["NOPRUNE"]["oracle_uas_of_all_trees"] == 100
            assert 0 < setups["LENGTHDICTIONARY"]["efficiency"] <= setups["VINECASCADE"]["efficiency"] < 100
            assert setups["VINECASCADE"]["oracle_uas"] <= setups["LENGTHDICTIONARY"]["oracle_uas"]
            assert all(row["oracle_uas"] <= row["oracle_uas_of_all_trees"] for row in setups.values())
            assert all(row["uas"] <= row["oracle_uas"] for row in setups.values())

    def test_without_pruning_long_sentences_are_left_out_above_first_order(self, done: Done) -> None:
        first, third = (done.results[order]["setups"]["NOPRUNE"] for order in ("first", "third"))
        assert (first["longest"], third["longest"]) == (None, 15)
        assert 0 < third["sentences"] < first["sentences"]
        assert "NOPRUNE, ≤ 15 words" in done.table("Table 1: ways to prune, third order")

    def test_speeds_are_relative_to_the_unpruned_first_order(self, done: Done) -> None:
        for order, setup in (("first", "NOPRUNE"), ("third", "VINEOWN")):
            row = done.table(f"Table 1: ways to prune, {order} order")[setup]
            times = done.results[order]["setups"][setup]
            assert len(times["baseline"]) == len(times["first"]) == len(times["seconds"]) == TINY.repeats
            expected = (np.median(times[name]) / np.median(times["seconds"]) for name in ("baseline", "first"))
            assert [row[0], row[2]] == [f"{speed:.2f}" for speed in expected]

    def test_pruners_have_the_settings_that_were_given(self, done: Done) -> None:
        for name in ("first-vineown", "third-vinecascade"):
            assert load_network(done.model(name)).settings["pruner"].error == 0.01
        assert "pruners are learnt with error 0.01" in (done.run / "report.md").read_text(encoding="utf-8")

    def test_all_stages_have_a_time(self, done: Done) -> None:
        stages = done.results["third"]["stages"]
        assert list(stages) == ["VINEOWN", "VINEOWN, 0.2 % of arcs", "VINECASCADE", "VINECASCADE, 0.2 % of arcs"]
        for name, seconds in stages.items():
            between = ["own"] if "OWN" in name else ["first", "second"]
            assert list(seconds) == ["vine", *between, "scores", "decoding"]
            assert sum(seconds.values()) > 0

    def test_ratios_are_those_of_the_best_batches(self, done: Done) -> None:
        batches = done.results["batches"]
        assert batches["words"] == sum(n for n in map(len, read_conll(done.treebank / "test.conllu")) if n <= 15)
        best = {}
        for side, sizes in batches["seconds"].items():
            assert list(sizes) == (["50", "100"] if side == "third order, no pruning" else ["100", "4000"])
            assert all(len(several) == TINY.repeats for several in sizes.values())
            best[side] = min(np.median(several) for several in sizes.values())
        row = done.table("Time by size of batches")["third order, VINEOWN"]
        sides = ["baseline, no pruning", "first order, no pruning", "third order, no pruning"]
        assert row[-3:] == [f"{best[side] / best['VINEOWN']:,.2f}" for side in sides]
        assert row[0] == f"{1e6 * np.median(batches['seconds']['VINEOWN']['100']) / batches['words']:,.2f}"

    def test_arcs_are_counted_by_distance(self, done: Done) -> None:
        for order in vine.ORDERS:
            for row in done.results[order]["setups"].values():
                assert sum(row["arcs_by_distance"]) == pytest.approx(row["arcs_per_word"] * row["words"])
                share = 100 * sum(row["gold_by_distance"]) / row["words"]  # these arcs need not be in one tree
                assert row["oracle_uas_of_all_trees"] - 1e-6 <= share <= 100
        sentences = list(read_conll(done.treebank / "test.conllu"))
        far = [head - m for s in sentences for m, head in enumerate(s.head, 1) if head]
        words = sum(map(len, sentences))
        rows = done.table("Figure 1")
        assert rows["2"][0] == f"{100 * sum(abs(d) == 2 for d in far) / words:.1f}"
        assert rows["8 to 15"][0] == f"{100 * sum(8 <= abs(d) <= 15 for d in far) / words:.1f}"
        assert rows["root"][0] == f"{100 * (words - len(far)) / words:.1f}"

    def test_each_pruner_is_there_with_another_error(self, done: Done) -> None:
        for order in vine.ORDERS:
            setups = done.results[order]["setups"]
            stricter, own = setups["VINECASCADE, 0.2 % of arcs"], setups["VINECASCADE"]
            assert stricter["oracle_uas"] >= own["oracle_uas"]
            assert stricter["arcs_per_word"] >= own["arcs_per_word"]

    def test_pieces_have_one_length(self, done: Done) -> None:
        lengths = done.results["lengths-third"]
        assert set(lengths) >= {
            "NOPRUNE",
            "VINECASCADE",
            "VINECASCADE, vine alone",
            "VINECASCADE, 0.2 % of arcs",
            "VINEOWN",
        }
        assert [point["words"] for point in lengths["VINECASCADE"]["points"]] == [10, 15]
        sentences = list(read_conll(done.treebank / "test.conllu"))
        found = vine.pieces(sentences, 100, 15)
        assert [len(piece) for piece in found] == [15] * 6
        assert found[0].upos == [tag for sentence in sentences for tag in sentence.upos][:15]

    def test_citeds_stand_next_to_ours(self, done: Done) -> None:
        assert done.table("Table 1: ways to prune, second order")["LENGTHDICTIONARY"][1] == "0.76"
        assert done.table("Table 1: ways to prune, third order")["VINECASCADE"][9] == "97.4"
        assert done.table("Table 3")["Swedish, third order, VINECASCADE (paper)"] == ["90.1", "–", "5,320"]


@pytest.mark.parametrize("done", ["greedy --scores linear"], indirect=True)
class TestLinearGreedy:
    def test_figures_are_those_of_predict_and_evaluate(self, done: Done, tmp_path: Path) -> None:
        rows = done.results["own-second"]["parsers"][0]["alone"]
        assert rows["exact"]["uas"] == done.uas("second", tmp_path)
        assert rows["BGI"]["uas"] == done.uas("second_basic", tmp_path)

    def test_the_parsers_are_linear(self, done: Done) -> None:
        assert is_linear(done.model("first"))
        assert is_linear(done.model("second"))
        assert "scores: linear models" in (done.run / "report.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("done", ["hill-climbing --scores linear"], indirect=True)
class TestLinearHillClimbing:
    def test_figures_are_those_of_predict_and_evaluate(self, done: Done, tmp_path: Path) -> None:
        best = ("--decoder", "HillClimbing", "--decoder.start", "best")
        assert done.results["starts"]["best"]["uas"] == done.uas("full", tmp_path, *best)
        assert done.results["heads"]["trees"] == done.uas("exact", tmp_path)
        assert done.results["heads"]["their_trees"] == done.uas("heads", tmp_path)

    def test_optima_are_counted_without_pruning(self, done: Done) -> None:
        words = [len(sentence) for sentence in read_conll(done.treebank / "test.conllu")]
        every = next(group for group in done.results["optima"] if group["length"] == "all")
        assert every["arcs"] == pytest.approx(sum(n * n for n in words) / sum(words))

    def test_the_full_model_has_tree_features_and_climbs(self, done: Done) -> None:
        full = read_linear(done.model("full")).model
        assert {"valency", "tri_sibling"} <= set(full.part_features)
        assert (full.decoder.patience, full.decoder.start) == (300, "first_order")  # type: ignore[attr-defined]

    def test_the_classifier_learns_from_separate_heads(self, done: Done) -> None:
        classifier, parser = (read_linear(done.model(name)).model for name in ("heads", "exact"))
        assert (classifier.weights != parser.weights).any()
        asked = yaml.safe_load((done.run / "models" / "heads-1" / "asked.yaml").read_text())
        assert asked["learning"] == {"separate_heads": True, "epochs": 1, "seed": 1}


@pytest.mark.parametrize("done", ["ad3 --scores linear"], indirect=True)
class TestLinearAD3:
    def test_figures_are_those_of_predict_and_evaluate(self, done: Done, tmp_path: Path) -> None:
        ours = done.results["third"]["decoders"]["AD3"]["accuracy"]["uas"]
        assert ours == done.uas("third", tmp_path, "--decoder", "AD3")

    def test_orders_have_their_kinds_of_parts(self, done: Done) -> None:
        kinds = {name: set(read_linear(done.model(name)).model.part_features) for name in ad3.MODELS}
        second = {"grandparent", "sibling"}
        assert kinds["first"] == set()
        assert kinds["second_all"] == second | {"any_sibling", "head_bigram"}
        assert kinds["third"] == kinds["relaxed"] == kinds["second_all"] | {"grand_sibling", "tri_sibling"}

    def test_one_parser_of_third_order_learns_from_fractional_solutions(self, done: Done) -> None:
        relaxed, third = (read_linear(done.model(name)).model for name in ("relaxed", "third"))
        assert (relaxed.decoder.fractional, third.decoder.fractional) == (True, False)  # type: ignore[attr-defined]
        assert (relaxed.weights != third.weights).any()


OWN = {"first": "NOPRUNE", "third": "marginals"}
"""Set-ups of linear parsers as they were trained."""


@pytest.mark.parametrize("done", ["vine --scores linear"], indirect=True)
class TestLinearVine:
    @pytest.mark.parametrize("order", ["first", "third"])
    def test_figures_are_those_of_predict_and_evaluate(self, done: Done, tmp_path: Path, order: str) -> None:
        for setup, model in {"VINECASCADE": f"{order}-vinecascade", OWN[order]: order}.items():
            assert done.results[order]["setups"][setup]["uas"] == done.uas(model, tmp_path)

    def test_pruners_leave_fewer_arcs_and_other_weights_stay(self, done: Done) -> None:
        trained = read_linear(done.model("third")).model
        for name, stages in vine_linear.LEARNT["third"].items():
            other = read_linear(done.model(f"third-{name.lower()}")).model
            assert (other.weights == trained.weights).all()
            assert other.settings.stages == stages
            row = done.results["third"]["setups"][name]
            assert 0 < row["efficiency"] < 100
            assert row["uas"] <= row["oracle_uas_of_all_trees"]

    def test_each_cascade_is_there_with_another_error(self, done: Done) -> None:
        """With several stages, the later ones may take more from what a stricter one leaves."""
        for order, learnt in vine_linear.LEARNT.items():
            setups = done.results[order]["setups"]
            assert {f"{name}, 0.2 % of arcs" for name in learnt} < set(setups)
            for name in (name for name, stages in learnt.items() if len(stages) == 1):
                own, stricter = setups[name], setups[f"{name}, 0.2 % of arcs"]
                assert stricter["oracle_uas_of_all_trees"] >= own["oracle_uas_of_all_trees"]
                assert stricter["arcs_per_word"] >= own["arcs_per_word"]

    def test_without_pruning_every_tree_is_there(self, done: Done) -> None:
        for order, setups in ((order, done.results[order]["setups"]) for order in vine.ORDERS):
            assert setups["NOPRUNE"]["oracle_uas_of_all_trees"] == 100
            assert setups["NOPRUNE"]["efficiency"] == 0
            assert setups["NOPRUNE"]["longest"] == (None if order == "first" else 15)

    def test_stages_and_lengths_are_timed(self, done: Done) -> None:
        for order, setups in vine_linear.LEARNT.items():
            for name in ("VINECASCADE", "VINECASCADE, 0.2 % of arcs"):
                assert list(done.results[order]["stages"][name]) == [*setups["VINECASCADE"], "scores", "decoding"]
                points = done.results[f"lengths-{order}"][name]["points"]
                assert [point["words"] for point in points] == [10, 15]
        sides = ["first order, no pruning", "third order, no pruning", "VINECASCADE", "VINECASCADE, 0.2 % of arcs"]
        assert list(done.results["batches"]["seconds"]) == sides

    def test_citeds_stand_next_to_ours(self, done: Done) -> None:
        assert done.table("Table 1: ways to prune, third order")["VINECASCADE"][7] == "97.4"


def test_every_paper_is_tested() -> None:
    assert set(PAPERS) == set(LINEAR_PAPERS) == {"greedy", "hill-climbing", "ad3", "vine"}
    for name, paper in LINEAR_PAPERS.items():
        assert name == "vine" or set(paper.models) == set(PAPERS[name].models)


def test_times_grow_by_a_power_of_the_length() -> None:
    points = [{"words": n, "milliseconds": 0.5 * n**1.5} for n in (10.0, 20.0, 40.0)]
    assert vine.exponent(points) == pytest.approx(1.5)
    assert vine.exponent(points[:1]) is None


def test_capped_counts_are_not_averaged() -> None:
    assert hill_climbing._optima([1, 3]) == "2 (1 to 3)"
    assert hill_climbing._optima([10_000, 10_000]) == "≥ 10,000"
    assert hill_climbing._optima([10_000, 12]) == "12 to ≥ 10,000"
