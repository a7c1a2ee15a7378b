"""Outputs in the order that their names mean."""

import json

import numpy as np
import pytest

from qt_bert.errors import CheckpointError
from qt_bert.models.checkpoint import save_checkpoint
from qt_bert.models.opening import open_checkpoint
from qt_bert.models.outputs import order_of
from qt_bert.scoring.bulk import Scorer
from qt_bert.scoring.judge import read_outputs

TEXTS = [("北京到上海高铁票价", "上海到北京高铁票价"), ("狗", "猫追狗"), ("苹果", "苹果手机")]


@pytest.mark.parametrize(
    ("names", "order"),
    [
        ("1 2 3 4 5", (0, 1, 2, 3, 4)),
        ("5 4 3 2 1", (4, 3, 2, 1, 0)),
        ("5星 3星 1星 2星 4星", (2, 3, 1, 4, 0)),
        ("L4 L3 L2 L1 L0", (4, 3, 2, 1, 0)),
        ("LABEL_1 LABEL_0", (1, 0)),
        ("1.0 -1 0", (1, 2, 0)),
        ("grade-2 grade-1", (1, 0)),
        ("①等 ③等 ②等", (0, 2, 1)),
        ("relevant irrelevant", (1, 0)),
        ("Not_Relevant Relevant", (0, 1)),
        ("相关 不相关", (1, 0)),
        ("无关 相关", (0, 1)),
        ("yes no", (1, 0)),
        ("entailment not_entailment", (1, 0)),
        ("entailment neutral contradiction", (2, 1, 0)),
        ("clicked unclicked", (1, 0)),
        ("未点击 点击", (0, 1)),
        ("Exact Substitute Complement Irrelevant", (3, 2, 1, 0)),
        ("E S C I", (3, 2, 1, 0)),
        ("Exact Partial Irrelevant", (2, 1, 0)),
        ("highly_relevant related irrelevant perfectly_relevant", (2, 1, 0, 3)),
        ("no_match partial_match exact_match", (0, 1, 2)),
        ("完全满足 基本满足 部分满足 不满足 不相关", (4, 3, 2, 1, 0)),
        ("非常相关 相关 部分相关 不相关", (3, 2, 1, 0)),
        ("强相关 弱相关 不相关", (2, 1, 0)),
        ("完全不相关 不相关 一般 相关 非常相关", (0, 1, 2, 3, 4)),
        ("0-不相关 1-部分相关 2-相关", (0, 1, 2)),
        ("1-完全满足 2-部分满足 3-不满足", (2, 1, 0)),
        ("好 中 差", (2, 1, 0)),
        ("低 中 高", (0, 1, 2)),
        ("high medium low", (2, 1, 0)),
        ("Perfect Excellent Good Fair Bad", (4, 3, 2, 1, 0)),
        ("甲 乙 丙", None),
        ("相关 相关", None),
        ("1-2 3-4 5", None),
        ("spam ham", None),
        ("? !", None),
    ],
)
def test_the_order_of_names(names, order):
    assert order_of(names.split()) == order


def named(folder, names, **more):
    path = folder / "config.json"
    config = json.loads(path.read_text("utf-8"))
    config["id2label"] = dict(zip(map(str, range(len(names))), names, strict=True))
    config["label2id"] = {name: number for number, name in enumerate(names)}
    path.write_text(json.dumps(config | more), "utf-8")
    return folder


@pytest.mark.parametrize("family", ["bert", "roberta", "qwen3", "distilbert", "albert"])
def test_outputs_are_put_in_rising_order(fresh_checkpoint, tmp_path, family, capsys):
    folder = fresh_checkpoint(family, labels=3)
    before = Scorer(open_checkpoint(folder)).logits(TEXTS)
    checkpoint = open_checkpoint(named(folder, ["3", "1", "2"]))
    assert checkpoint.settings.labels.order == (1, 2, 0)
    np.testing.assert_allclose(Scorer(checkpoint).logits(TEXTS), before[:, [1, 2, 0]], atol=1e-5)
    assert "id2label calls the outputs 3, 1, 2" in capsys.readouterr().err
    saved, settings = tmp_path / "saved", checkpoint.settings
    save_checkpoint(saved, checkpoint.model, checkpoint.tokenizer, settings=settings)
    again = Scorer(open_checkpoint(saved))
    assert again.settings.labels.order is None and not capsys.readouterr().err.count("id2label")
    np.testing.assert_allclose(again.logits(TEXTS), before[:, [1, 2, 0]], atol=2e-2)


def test_two_outputs_are_levels_by_name(fresh_checkpoint):
    folder = fresh_checkpoint(labels=2)
    before = Scorer(open_checkpoint(folder)).logits(TEXTS).astype(float)
    scorer = Scorer(open_checkpoint(named(folder, ["相关", "不相关"])))
    outputs = read_outputs(scorer.logits(TEXTS), scorer.settings.labels)
    relevant = 1 / (1 + np.exp(before[:, 1] - before[:, 0]))
    np.testing.assert_allclose(outputs.ranking_score, relevant, atol=1e-6)


@pytest.mark.parametrize("how", ["option", "card"])
def test_grades_given_settle_the_order(fresh_checkpoint, how, capsys):
    folder = named(fresh_checkpoint(), ["1", "2", "3", "4", "5"])
    before = Scorer(open_checkpoint(folder)).logits(TEXTS)
    if how == "card":
        card = {"schema": 1, "grades": [[5], [4], [3], [2], [1]]}
        (folder / "qt_bert.json").write_text(json.dumps(card))
    option = "0=5,1=4,2=3,3=2,4=1" if how == "option" else None
    checkpoint = open_checkpoint(folder, model_grades=option)
    assert checkpoint.settings.labels.exact
    np.testing.assert_allclose(Scorer(checkpoint).logits(TEXTS), before[:, ::-1], atol=1e-5)
    assert "in another order than the grades given" in capsys.readouterr().err
    exact = Scorer(open_checkpoint(folder, model_grades=option, dtype="bfloat16")).exact()
    np.testing.assert_allclose(exact.logits(TEXTS), before[:, ::-1], atol=1e-5)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["甲", "乙", "丙"], "0 < 1 < 2"),
        (["a", "b", "c", "d", "e"], "1 < 2 < 3 < 4 < 5"),
        (["LABEL_0", "LABEL_1"], "0 < 1"),
        (["LABEL_0", "LABEL_1", "LABEL_2"], ""),
        (["不相关", "相关"], ""),
        (["好"], ""),
    ],
)
def test_an_unknown_order_is_named(fresh_checkpoint, names, message, capsys):
    labels = open_checkpoint(named(fresh_checkpoint(labels=len(names)), names)).settings.labels
    err = capsys.readouterr().err
    assert labels.order is None and (message in err if message else "id2label" not in err)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"problem_type": "multi_label_classification"}, "problem_type multi_label"),
        ({"problem_type": "regression"}, "problem_type regression"),
        ({"label2id": {"好": 2, "中": 1, "差": 0}}, "label2id"),
        ({"id2label": ["差", "中", "好"]}, "id2label is"),
        ({"id2label": {"0": "差", "2": "好", "3": "中"}}, "id2label is"),
        ({"id2label": {"0": "差", "1": "好"}}, "id2label"),
    ],
)
@pytest.mark.parametrize("family", ["bert", "distilbert"])
def test_outputs_that_are_no_levels_of_one_scale(fresh_checkpoint, family, changes, message):
    folder = named(fresh_checkpoint(family, labels=3), ["好", "中", "差"], **changes)
    with pytest.raises(CheckpointError, match=message):
        open_checkpoint(folder)


@pytest.mark.parametrize(
    ("label2id", "order"),
    [({"相关": 0, "不相关": 1}, (1, 0)), ({"no": "0", "yes": "1"}, None), (["a"], None)],
)
def test_names_in_label2id_alone_count(fresh_checkpoint, label2id, order):
    folder = named(fresh_checkpoint(labels=2), ["LABEL_0", "LABEL_1"], label2id=label2id)
    assert open_checkpoint(folder).settings.labels.order == order


def test_regression_of_one_output_is_a_score(fresh_checkpoint):
    folder = named(fresh_checkpoint(labels=1), ["score"], problem_type="regression")
    assert open_checkpoint(folder).settings.labels.logits == 1
