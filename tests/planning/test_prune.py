"""Pruned against masked, over random plans; and folders that open again."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from qt_bert.ablation.importance import unit_importance_on
from qt_bert.data.pairs import Pair
from qt_bert.errors import ArgumentError, CheckpointError, EquivalenceError, RunFolderError
from qt_bert.models.checkpoint import smaller_checkpoint
from qt_bert.models.loading import open_for_tuning
from qt_bert.models.opening import open_checkpoint
from qt_bert.planning.prune import masked_difference, open_teacher, prune
from qt_bert.results.kept import KeptLayer
from qt_bert.scoring.bulk import Scorer

TEXTS = [
    ("北京到上海高铁票价", "上海到北京高铁票价"),
    ("京东小哥", "京东小哥最近在干嘛"),
    ("狗", "猫追狗" * 9),
    ("苹果手机多少钱", "苹果多少钱一斤"),
]
PAIRS = [Pair(q, t, (1 + n,), str(n), n + 2, None, {}) for n, (q, t) in enumerate(TEXTS)]
SHAPE = {"layers": 4, "heads": 4, "hidden": 32}


@pytest.fixture
def teacher(checkpoint_of):
    return open_checkpoint(checkpoint_of("bert", **SHAPE))


def random_layers(seed: int) -> tuple[KeptLayer, ...]:
    """Some layers, some of their heads; now and then none."""
    rng = np.random.default_rng(seed)
    numbers = sorted(rng.choice(4, size=rng.integers(1, 5), replace=False).tolist())
    return tuple(
        KeptLayer(layer=n, heads=tuple(h for h in range(4) if rng.random() < 0.5)) for n in numbers
    )


def all_but(*gone: tuple[int, int]) -> tuple[KeptLayer, ...]:
    return tuple(
        KeptLayer(layer=n, heads=tuple(h for h in range(4) if (n, h) not in gone)) for n in range(4)
    )


KEPT = [
    *(random_layers(seed) for seed in range(5)),
    all_but(*((1, h) for h in range(4))),  # a layer loses all heads
    (KeptLayer(layer=2, heads=(0, 1, 2, 3)),),  # all layers but one are gone
    (KeptLayer(layer=0, heads=()),),
    all_but(),
]


@pytest.mark.parametrize("kept", KEPT, ids=range(len(KEPT)))
def test_pruned_is_masked(teacher, plan_of, kept):
    small = smaller_checkpoint(teacher, kept)
    assert masked_difference(teacher, small, plan_of(teacher, kept), TEXTS) <= 1e-4


def test_a_model_that_is_not_the_masked_one_is_not_saved(teacher, plan_of, tmp_path):
    small = smaller_checkpoint(teacher, all_but((0, 0)))
    with pytest.raises(EquivalenceError, match="nothing was saved"):
        masked_difference(teacher, small, plan_of(teacher, all_but((0, 1))), TEXTS)


def test_logits_that_are_no_numbers_are_refused(teacher, plan_of):
    teacher.model.classifier.bias.data.fill_(float("nan"))
    small = smaller_checkpoint(teacher, all_but((0, 0)))
    with pytest.raises(CheckpointError, match="NaN or infinite outputs"):
        masked_difference(teacher, small, plan_of(teacher, all_but((0, 0))), TEXTS)


def test_the_teacher_is_never_overwritten(fresh_checkpoint, plan_of):
    folder = fresh_checkpoint("bert", **SHAPE)
    teacher = open_checkpoint(folder)
    for out in (folder, folder.parent):
        with pytest.raises(ArgumentError, match="which is read"):
            prune(teacher, plan_of(teacher, all_but((0, 0))), PAIRS, out, overwrite=True)
    assert open_checkpoint(folder).sha256 == teacher.sha256


def test_the_folder_opens_and_scores_in_both_shapes(teacher, plan_of, tmp_path):
    saved = prune(teacher, plan_of(teacher, KEPT[0]), PAIRS, tmp_path / "small")
    assert saved.parameters[1] < saved.parameters[0] == teacher.parameters
    expected = Scorer(smaller_checkpoint(teacher, KEPT[0])).logits(TEXTS)
    for compact in (True, False):
        logits = Scorer(open_checkpoint(saved.folder, compact=compact)).logits(TEXTS)
        np.testing.assert_allclose(logits, expected, atol=1e-4)


def test_a_pruned_folder_is_no_base_of_a_training(teacher, plan_of, tmp_path):
    saved = prune(teacher, plan_of(teacher, KEPT[0]), PAIRS, tmp_path / "small")
    with pytest.raises(CheckpointError, match=r"a pruned model, .*qt-bert distill"):
        open_for_tuning(saved.folder, 5)


def test_the_units_of_greatest_importance_stay(teacher, plan_of, tmp_path):
    kept = all_but((0, 0))
    plan = plan_of(teacher, [replace(layer, units=16) for layer in kept])
    prune(teacher, plan, PAIRS, tmp_path / "small")
    opened = open_checkpoint(tmp_path / "small", compact=True)
    assert [layer.units for layer in opened.kept.layers] == [16] * 4
    layers = opened.model.bert.encoder.layer
    assert {layer.intermediate.dense.out_features for layer in layers} == {16}
    importance = unit_importance_on(Scorer(smaller_checkpoint(teacher, kept)), PAIRS)
    best = sorted(np.argsort(-importance[0])[:16])
    up = teacher.model.bert.encoder.layer[0].intermediate.dense.weight[best]
    torch.testing.assert_close(layers[0].intermediate.dense.weight, up)


def test_the_units_that_a_plan_names_stay(teacher, plan_of, tmp_path):
    kept = (KeptLayer(layer=1, heads=(0, 1), units=2),)
    plan = replace(plan_of(teacher, kept), units={"1": (5, 60)})
    opened = open_checkpoint(prune(teacher, plan, PAIRS, tmp_path / "small").folder, compact=True)
    up = teacher.model.bert.encoder.layer[1].intermediate.dense.weight[[5, 60]]
    torch.testing.assert_close(opened.model.bert.encoder.layer[0].intermediate.dense.weight, up)
    with pytest.raises(ArgumentError, match="units of layer 'one'"):
        prune(teacher, replace(plan, units={"one": (5, 60)}), PAIRS, tmp_path / "other")


def test_a_plan_for_another_model_is_refused(teacher, plan_of, checkpoint_of):
    plan = plan_of(teacher, all_but((0, 0)))
    assert open_teacher(plan, teacher.folder).sha256 == teacher.sha256
    with pytest.raises(ArgumentError, match=r"made for .* holds others"):
        open_teacher(plan, checkpoint_of("bert"))


def test_no_pairs_and_a_folder_with_anything_in_it_are_refused(teacher, plan_of, tmp_path):
    plan = plan_of(teacher, all_but((0, 0)))
    with pytest.raises(ArgumentError, match="no pair"):
        prune(teacher, plan, [], tmp_path / "small")
    (tmp_path / "note").touch()
    with pytest.raises(RunFolderError, match="not empty"):
        prune(teacher, plan, PAIRS, tmp_path)
    with pytest.raises(RunFolderError, match="is a file"):
        prune(teacher, plan, PAIRS, tmp_path / "note", overwrite=True)
