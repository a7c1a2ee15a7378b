"""`--heads-out` of score, evaluate, explain and compare, against hooks on the Hugging Face model."""

import csv
import json
from functools import partial

import numpy as np
import pytest

from qt_bert.ablation import request
from qt_bert.ablation.masks import HeadMask
from qt_bert.ablation.reference import PlainModel
from qt_bert.ablation.request import mean_z
from qt_bert.errors import EquivalenceError
from qt_bert.heads import Head
from qt_bert.models.batches import batches_of
from qt_bert.models.opening import open_checkpoint
from qt_bert.scoring import score as score_module
from qt_bert.scoring.bulk import Scorer
from tests.conftest import PAIRS, write_pairs

HEADS = "L0H1 L1H0"


@pytest.fixture
def hooked(checkpoint_of):
    """Probabilities of texts without heads L0H1 and L1H0, by hooks on the Hugging Face model."""
    checkpoint = open_checkpoint(checkpoint_of())
    plain = PlainModel(checkpoint.model, checkpoint.family)

    def batches(texts):
        encoded = checkpoint.pair_tokenizer().encode(texts)
        return list(batches_of(encoded, 1000, pad=checkpoint.pad))

    def probabilities(texts, mode="zero", reference=()):
        means = mean_z(checkpoint.encoder(), batches(reference)) if mode == "mean" else None
        part = HeadMask((Head(0, 1), Head(1, 0)), mode, means)
        result = np.empty((len(texts), 5))
        for batch in batches(texts):
            result[batch.rows] = plain.logits(batch, (part,)).softmax(-1).numpy()
        return result

    return probabilities


TEXTS = [(query, title) for query, title, _ in PAIRS]


@pytest.mark.parametrize("mode", ["zero", "uniform", "mean"])
def test_score(run, checkpoint_of, pair_file, tmp_path, hooked, mode):
    reference = write_pairs(tmp_path / "reference.tsv", TEXTS[:3])
    out = tmp_path / "o.tsv"
    ended = run(
        "score", pair_file, "--model", checkpoint_of(), "--out", out,
        "--heads-out", HEADS, "--mode", mode, "--reference", reference,
    )  # fmt: skip
    assert ended.status == 0 and f"without {HEADS} ({mode})" in ended.err, ended.err
    with open(out, encoding="utf-8") as handle:
        scored = list(csv.DictReader(handle, delimiter="\t"))
    scores = [[float(row[f"p_{grade}"]) for grade in range(1, 6)] for row in scored]
    np.testing.assert_allclose(scores, hooked(TEXTS, mode, TEXTS[:3]), atol=1e-5)
    record = json.loads((tmp_path / "o.tsv.run.json").read_text(encoding="utf-8"))
    assert (record["model"]["heads_out"], record["model"]["mode"]) == (HEADS, mode)
    assert record["guards"]["unmasked"] <= record["guards"]["bound"]


def test_an_unfinished_score_is_resumed_by_the_same_model_alone(
    run, refused, checkpoint_of, pair_file, tmp_path, monkeypatch
):
    arguments = ("score", pair_file, "--model", checkpoint_of(), "--out", tmp_path / "o.tsv")
    logits, calls = Scorer.logits, []

    def interrupted_second(scorer, pairs, shown):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return logits(scorer, pairs, shown)

    with monkeypatch.context() as patch:
        patch.setattr(score_module, "score_file", partial(score_module.score_file, window=3))
        patch.setattr(Scorer, "logits", interrupted_second)
        assert run(*arguments, "--heads-out", HEADS).status == 130
    for other in ([], ["--heads-out", "L0H0"], ["--heads-out", HEADS, "--mode", "uniform"]):
        refused("begun with another model", *arguments, *other, "--resume")


def test_evaluate(run, checkpoint_of, pair_file, hooked):
    ended = run(
        "evaluate", "--pairs", pair_file, "--model", checkpoint_of(), "--resamples", "10",
        "--heads-out", HEADS, "--json",
    )  # fmt: skip
    evaluation = json.loads(ended.out)
    right = hooked(TEXTS).argmax(1) + 1 == [grade for *_, grade in PAIRS]
    assert evaluation["accuracy"]["value"] == pytest.approx(right.mean())
    assert (evaluation["model"]["heads_out"], evaluation["model"]["mode"]) == (HEADS, "zero")
    assert evaluation["mode"] == "grades"
    assert evaluation["guards"]["unmasked"] <= evaluation["guards"]["bound"]


def test_evaluate_names_the_heads_on_the_terminal(run, checkpoint_of, pair_file):
    arguments = ("evaluate", "--pairs", pair_file, "--model", checkpoint_of(), "--resamples", "10")
    shown = run(*arguments, "--heads-out", "L1H0,L0H1", "--mode", "block")
    assert f"without {HEADS} (block)" in shown.out and f"without {HEADS} (block)" in shown.err
    plain = run(*arguments, "--json")
    assert "guards" not in json.loads(plain.out) and "without" not in plain.err


def test_explain(run, checkpoint_of, hooked):
    query, title = "京东小哥", "小哥最近在干嘛"
    arguments = ("explain", query, title, "--model", checkpoint_of(), "--heads-out", HEADS)
    explained = json.loads(run(*arguments, "--json").out)
    probabilities = [explained[f"p_{grade}"] for grade in range(1, 6)]
    np.testing.assert_allclose(probabilities, hooked([(query, title)])[0], atol=1e-5)
    assert (explained["heads_out"], explained["mode"]) == (HEADS, "zero") and "guards" in explained
    term = next(term for term in explained["terms"] if term["side"] == "title")
    filled = title.replace(term["term"], "[MASK]" * len(term["term"]), 1)  # read as the token
    without = hooked([(query, filled)])[0] @ np.arange(1, 6)
    assert term["score"] == pytest.approx(without, abs=1e-4)
    assert f"without {HEADS} (zero)" in run(*arguments).out


def test_compare_leaves_heads_out_of_b_alone(run, checkpoint_of, pair_file, hooked):
    model = checkpoint_of()
    arguments = ("compare", model, model, "--pairs", pair_file, "--heads-out", HEADS)
    compared = json.loads(run(*arguments, "--json").out)
    evaluate = ("evaluate", "--pairs", pair_file, "--model", model, "--resamples", "10")
    plain = json.loads(run(*evaluate, "--json").out)
    accuracy = compared["metrics"]["accuracy"]
    right = hooked(TEXTS).argmax(1) + 1 == [grade for *_, grade in PAIRS]
    assert accuracy["value_a"] == plain["accuracy"]["value"]
    assert accuracy["value_b"] == pytest.approx(right.mean())
    assert "heads_out" not in compared["a"] and compared["b"]["heads_out"] == HEADS
    assert "guards" in compared
    shown = run(*arguments).out.splitlines()
    assert shown[0] == f"A = {model}" and shown[1] == f"B = {model} without {HEADS} (zero)"


BAD = [
    (["--heads-out", "L5H0"], "there is no head L5H0: the model has 2 layers of 2 heads"),
    (["--heads-out", "5"], "'5' is no head"),
    (["--heads-out", ""], "no head is named"),
    (["--heads-out", "L0H0", "--mode", "off"], "mode 'off': choose from"),
    (["--mode", "zero"], "--mode goes with --heads-out"),
    (["--reference", "x.tsv"], "--reference goes with --heads-out"),
    (["--heads-out", "L0H0", "--reference", "gone.tsv"], "gone.tsv"),
]


@pytest.mark.parametrize(
    ("command", "options", "words"),
    [
        *(("evaluate", *bad) for bad in BAD),
        *((command, *BAD[n]) for command in ("score", "explain", "compare") for n in (0, 4)),
    ],
)
def test_bad_heads_are_one_line(
    refused, checkpoint_of, pair_file, tmp_path, command, options, words
):
    model = checkpoint_of()
    arguments = {
        "score": ["score", pair_file, "--model", model, "--out", tmp_path / "o.tsv"],
        "evaluate": ["evaluate", "--pairs", pair_file, "--model", model],
        "explain": ["explain", "狗", "猫", "--model", model],
        "compare": ["compare", model, model, "--pairs", pair_file],
    }[command]
    refused(words, *arguments, *options)


def test_a_guard_that_fails_stops_the_command(run, checkpoint_of, pair_file, monkeypatch):
    def failing(*_, **__):
        raise EquivalenceError("the mask takes no effect")

    monkeypatch.setattr(request, "check_equivalence", failing)
    ended = run("evaluate", "--pairs", pair_file, "--model", checkpoint_of(), "--heads-out", HEADS)
    assert ended.status == 2 and "the mask takes no effect" in ended.err and not ended.out
