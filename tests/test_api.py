"""The Python API: its names, imported when used, and pairs graded."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import qt_bert
from qt_bert.errors import ArgumentError, CheckpointError
from qt_bert.models import opening
from qt_bert.request import Request, from_options
from qt_bert.scoring import bulk
from tests.conftest import PAIRS, write_pairs


def test_every_public_name_is_there():
    assert len(qt_bert.__all__) == 17
    for name in qt_bert.__all__:
        assert getattr(qt_bert, name) is not None


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = qt_bert.nonsense


def test_importing_the_package_loads_no_torch():
    code = "import sys, qt_bert; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_one_pair(checkpoint_of):
    graded = qt_bert.load(checkpoint_of()).grade("京东小哥", "京东小哥最近在干嘛")
    assert list(graded.probabilities) == ["1", "2", "3", "4", "5"]
    assert sum(graded.probabilities.values()) == pytest.approx(1)
    assert graded.grade == max(graded.probabilities, key=graded.probabilities.__getitem__)
    expected = sum(int(g) * p for g, p in graded.probabilities.items())
    assert graded.expected == pytest.approx(expected)


def test_many_pairs_are_a_data_frame(checkpoint_of):
    grader = qt_bert.load(checkpoint_of())
    frame = grader.score(pair for pair in [("狗", "猫"), ("京东小哥", "小哥")])
    assert isinstance(frame, pd.DataFrame) and list(frame["title"]) == ["猫", "小哥"]
    assert frame.columns[0] == "query" and "expected_grade" in frame
    expected = grader.grade("京东小哥", "小哥").expected
    assert frame["expected_grade"][1] == pytest.approx(expected, abs=1e-5)


def test_a_reranker_gives_scores_and_no_grades(checkpoint_of):
    grader = qt_bert.load(checkpoint_of("xlm-roberta", labels=1))
    assert "score" in grader.score([("狗", "猫")])
    with pytest.raises(ArgumentError, match="gives one score and no grades"):
        grader.grade("狗", "猫")


def test_evaluate_and_explain(checkpoint_of, pair_file):
    grader = qt_bert.load(checkpoint_of())
    assert grader.evaluate(pair_file)["metrics"]["accuracy"]["n"] == 8
    assert grader.evaluate(pair_file, auto_slices=True)["auto_slices"] == []  # too few queries
    queries = grader.queries(pair_file)
    assert queries["titles"].sum() == 8 and queries["query"].is_unique
    assert grader.explain("京东小哥", "京东小哥最近").terms


def test_an_evaluation_counts_the_texts_of_its_own_file(checkpoint_of, pair_file):
    grader = qt_bert.load(checkpoint_of(), max_length=8)
    first, second = (grader.evaluate(pair_file)["truncated_titles"] for _ in range(2))
    assert first == second > 0


def test_a_calibration_is_fitted_and_applied(checkpoint_of, pair_file, tmp_path):
    grader, out = qt_bert.load(checkpoint_of()), tmp_path / "c.json"
    found = grader.calibrate(pair_file, out=out, resamples=20)
    assert found["n_pairs"] + found["pairs"]["fitted"] == 8 and out.exists()
    temperature = found["calibration"]["temperature"]
    plain, cooled = (grader.score([("狗", "猫")], calibrated=one) for one in (False, out))
    names = [f"p_{grade}" for grade in range(1, 6)]
    powers = plain[names].to_numpy(float) ** (1 / temperature)
    np.testing.assert_allclose(cooled[names].to_numpy(float), powers / powers.sum(), rtol=1e-4)
    assert grader.evaluate(pair_file, calibrated=out)["metrics"]["nll"]["value"] is not None


def test_a_saved_calibration_is_that_of_the_open_model(fresh_checkpoint, pair_file, tmp_path):
    grader, out = qt_bert.load(fresh_checkpoint()), tmp_path / "c.json"
    grader.calibrate(pair_file, out=out, save=True, resamples=20)
    saved, filed = (grader.score([("狗", "猫")], calibrated=one) for one in (True, out))
    pd.testing.assert_frame_equal(saved, filed)


@pytest.mark.parametrize("pairs", [["ab", "cd"], [("a", "")], [("a", None)], [("a",)], "ab", None])
def test_what_is_no_pair_of_texts_is_refused(checkpoint_of, pairs):
    with pytest.raises(ArgumentError, match="pair"):
        qt_bert.load(checkpoint_of()).score(pairs)


def test_an_empty_pair_has_no_grade(checkpoint_of):
    with pytest.raises(ArgumentError, match="neither empty"):
        qt_bert.load(checkpoint_of()).grade("", " ")


def test_attention_rows_sum_to_one_and_are_the_hugging_face_models(checkpoint_of):
    grader = qt_bert.load(checkpoint_of())
    maps = grader.attention("京东小哥", "小哥在干嘛")
    opened = grader.scorer.checkpoint
    assert maps.weights.shape == (opened.layers, opened.heads, *[len(maps.tokens)] * 2)
    assert maps.tokens[0] == "[CLS]" and maps.tokens[1:5] == tuple("京东小哥")
    inputs = opened.tokenizer("京东小哥", "小哥在干嘛", return_tensors="pt")
    with torch.inference_mode():
        found = opened.model(**inputs, output_attentions=True).attentions
    np.testing.assert_allclose(maps.weights, torch.cat(found).numpy(), atol=1e-5)


def test_a_plotted_map_holds_every_cell(checkpoint_of):
    maps = qt_bert.load(checkpoint_of()).attention("京东", "小哥")
    spec = str(maps.plot("L1H0").to_dict())
    assert all(f"'{token}'" in spec for token in ("京", "东", "小", "哥", "[CLS]", "[SEP]"))
    with pytest.raises(ArgumentError, match="L9H0"):
        maps.plot("L9H0")


def test_ablating_heads_changes_the_grade_as_the_command_does(checkpoint_of, pair_file):
    grader = qt_bert.load(checkpoint_of())
    without = grader.ablate("L0H0 L1H1", reference=pair_file)
    whole, less = (one.grade("狗追猫", "猫追狗").expected for one in (grader, without))
    assert less != pytest.approx(whole, abs=1e-6)
    assert without.scorer.left_out.guards["unmasked"] < 1e-4
    np.testing.assert_allclose(  # a later layer sees less than it did, a first one the same
        without.attention("狗", "猫").weights[0], grader.attention("狗", "猫").weights[0], atol=1e-6
    )
    with pytest.raises(ArgumentError, match="ablated already"):
        without.ablate("L0H1")
    with pytest.raises(ArgumentError, match="use the whole model"):
        without.probe("boundary", pair_file)


def test_a_sweep_is_a_table_of_effects(checkpoint_of, pair_file, tmp_path):
    grader = qt_bert.load(checkpoint_of())
    found = grader.sweep(pair_file, "layers", out=tmp_path / "sweep")
    assert {"L0", "L1"} <= set(found["name"]) and "accuracy" in set(found["metric"])
    logits = np.load(tmp_path / "sweep" / "logits.npy")
    frame = grader.ablate("L1H0 L1H1", reference=pair_file).score(pd.read_csv(pair_file, sep="\t"))
    own = found[(found["name"] == "L1") & (found["metric"] == "expected_grade")]
    whole = grader.score(pd.read_csv(pair_file, sep="\t"))["expected_grade"]
    assert logits.shape[1] == 8
    assert own["absolute"].item() == pytest.approx(
        (frame["expected_grade"] - whole).mean(), abs=1e-5
    )


def test_a_table_keeps_its_columns(checkpoint_of):
    table = pd.DataFrame({"field": ["x"], "query": ["狗"], "title": ["猫"]}, index=[7])
    found = qt_bert.load(checkpoint_of()).score(table)
    assert list(found.columns[:3]) == ["field", "query", "title"] and list(found.index) == [7]
    again = qt_bert.load(checkpoint_of()).score(table.assign(predicted_grade=["mine"]))
    assert again["input_predicted_grade"].tolist() == ["mine"]
    assert again["predicted_grade"].tolist() == found["predicted_grade"].tolist()
    third = qt_bert.load(checkpoint_of()).score(again)  # a scored table is scored again
    assert third.columns.is_unique and third["input_predicted_grade"].tolist() == ["mine"]
    assert third["input_input_predicted_grade"].tolist() == found["predicted_grade"].tolist()
    with pytest.raises(ArgumentError, match="no column 'title'"):
        qt_bert.load(checkpoint_of()).score(table.drop(columns="title"))
    with pytest.raises(ArgumentError, match="no column 'query', or several"):
        qt_bert.load(checkpoint_of()).score(
            table.rename(columns={"title": "query"}).assign(title="t")
        )


def test_a_vocabulary_is_cut_and_a_plain_folder_written(checkpoint_of, pair_file, tmp_path):
    grader = qt_bert.load(checkpoint_of(), dtype="float32")
    made = grader.prune_vocabulary(pair_file, tmp_path / "cut", pairs=pair_file)
    assert made["tokens"][1] == 59 and made["others"] == made["texts"]
    again = qt_bert.load(tmp_path / "cut")
    pairs = [("狗追猫", "猫追狗")]
    assert again.score(pairs)["expected_grade"][0] == pytest.approx(
        grader.score(pairs)["expected_grade"][0], abs=1e-6
    )
    assert again.export_transformers(tmp_path / "plain")["difference"] <= 1e-5
    with pytest.raises(ArgumentError, match="heads are ablated here"):
        grader.ablate("L0H0", reference=pair_file).export_transformers(tmp_path / "other")


def test_a_column_may_be_named_alone(checkpoint_of, tmp_path):
    rows = ((q, t, g, "ab"[g > 2]) for q, t, g in PAIRS)
    path = write_pairs(tmp_path / "pairs.tsv", rows, "field")
    model = qt_bert.load(checkpoint_of())
    for found in (model.compare(model, path, by="field"), model.evaluate(path, by="field")):
        assert {column: set(values) for column, values in found["slices"].items()} == {
            "field": {"a", "b"}
        }


def test_files_of_a_probe_may_be_given_as_text():
    values = {"gold": "gold.txt", "treebank": ["a.conllu"], "held_out": "held.tsv", "limit": 3}
    request = from_options(Request, values)
    assert request.gold == Path("gold.txt") and request.treebank == [Path("a.conllu")]
    assert request.held_out == [Path("held.tsv")] and request.reader.limit == 3
    with pytest.raises(ArgumentError, match="no option 'golds'; there are .*gold, "):
        from_options(Request, {"golds": "gold.txt"})


@pytest.fixture
def opened(monkeypatch) -> list[Path]:
    """The folders that were opened."""
    folders, open_checkpoint = [], bulk.open_checkpoint

    def count(folder, **options):
        folders.append(folder)
        return open_checkpoint(folder, **options)

    for module in (bulk, opening):
        monkeypatch.setattr(module, "open_checkpoint", count)
    return folders


def test_a_model_that_its_folder_holds_no_longer_is_not_studied(
    fresh_checkpoint, pair_file, tmp_path
):
    folder = fresh_checkpoint()
    grader, config = qt_bert.load(folder), folder / "config.json"
    config.write_text(config.read_text("utf-8") + "\n", "utf-8")
    with pytest.raises(CheckpointError, match="changed since it was opened"):
        grader.probe("matching", pair_file, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_study_uses_the_model_that_is_open(
    fake_probe, opened, checkpoint_of, more_pairs, tmp_path
):
    grader = qt_bert.load(checkpoint_of())
    assert grader.probe("fake", more_pairs, resamples=20).sets["chosen"] == ("L0H1",)
    with pytest.raises(ArgumentError, match="pairs_to_train goes without a budget"):
        grader.plan("heads=0.5", more_pairs, out=tmp_path / "plan", pairs_to_train=[more_pairs])
    grader.plan("heads=0.5", more_pairs, out=tmp_path / "plan", resamples=20)
    assert len(opened) == 1
