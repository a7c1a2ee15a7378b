"""Mixtures of models against hand-mixed weights, parts by name, and what has no mean."""

import json

import pytest
import torch
from transformers import BertConfig, BertForPreTraining

from qt_bert.data.templates import Template
from qt_bert.errors import ArgumentError
from qt_bert.heads import Head
from qt_bert.models.checkpoint import smaller_checkpoint
from qt_bert.models.families import FAMILIES
from qt_bert.models.mixing import average_models, mixture, parse_weights, part_of
from qt_bert.models.opening import open_checkpoint
from qt_bert.planning.prune import save_smaller
from qt_bert.results.kept import KeptLayer


def state_of(folder):
    return open_checkpoint(folder).model.state_dict()


@pytest.fixture
def pretrained(checkpoint_of, tmp_path):
    """A folder with a pooler but no classifier."""
    like = open_checkpoint(checkpoint_of())
    torch.manual_seed(5)
    model = BertForPreTraining(BertConfig.from_dict(like.model.config.to_dict()))
    model.save_pretrained(tmp_path / "base")
    like.tokenizer.save_pretrained(tmp_path / "base")
    return tmp_path / "base"


@pytest.mark.parametrize("weights", [None, (0.2, 0.5, 0.3), (0, 0, 1)])
def test_every_weight_is_the_weighted_mean(checkpoint_of, tmp_path, weights):
    folders = [checkpoint_of("bert", seed=seed) for seed in (0, 1, 2)]
    out = average_models(folders, tmp_path / "mean", weights)
    states, shares = [state_of(f) for f in folders], weights or (1 / 3,) * 3
    for name, got in state_of(out).items():
        expected = sum(w * state[name] for w, state in zip(shares, states, strict=True))
        torch.testing.assert_close(got, expected, atol=1e-6, rtol=1e-6)
    facts = json.loads((out / "training.json").read_text("utf-8"))
    assert facts["weights"] == pytest.approx(shares)
    assert len({model["sha256"] for model in facts["average_of"]}) == 3


def test_an_absent_classifier_comes_from_the_other_model(
    pretrained, checkpoint_of, tmp_path, capsys
):
    tuned = checkpoint_of()
    out = average_models([tuned, pretrained], tmp_path / "mean", (0.75, 0.25))
    got, before = state_of(out), BertForPreTraining.from_pretrained(pretrained).state_dict()
    for name, after in state_of(tuned).items():
        mixed = 0.75 * after + 0.25 * before[name] if name in before else after
        torch.testing.assert_close(got[name], mixed, atol=1e-6, rtol=1e-6)
    assert "has no classifier.bias, classifier.weight" in capsys.readouterr().err


def test_the_settings_stay_but_for_the_calibration(fresh_checkpoint, tmp_path):
    folder = fresh_checkpoint("qwen3", labels=1, positions=256)
    template = vars(Template(*"abcdef"))
    card = {"schema": 1, "grades": None, "max_length": 99, "template": template, "own": 1}
    stored = json.dumps(card | {"calibration": {"a": 1}})
    (folder / "qt_bert.json").write_text(stored, encoding="utf-8")
    out = average_models([folder, folder], tmp_path / "mean")
    assert json.loads((out / "qt_bert.json").read_text("utf-8")) == card


def test_pruned_models_have_a_pruned_mean(checkpoint_of, tmp_path):
    def pruned(seed, heads):
        layers = (KeptLayer(layer=0, heads=heads, units=5), KeptLayer(layer=1, heads=(0, 1)))
        teacher = open_checkpoint(checkpoint_of("bert", seed=seed))
        small = smaller_checkpoint(teacher, layers, units={0: range(5)})
        return save_smaller(tmp_path / f"{seed}{heads}", small, dtype=torch.float32)

    folders = [pruned(seed, (1,)) for seed in (0, 1)]
    mean = open_checkpoint(average_models(folders, tmp_path / "mean"))
    assert mean.shape == open_checkpoint(folders[0]).shape and Head(0, 0) in mean.shape.absent
    one, other = map(state_of, folders)
    for name, got in mean.model.state_dict().items():
        torch.testing.assert_close(got, (one[name] + other[name]) / 2, atol=1e-6, rtol=1e-6)
    with pytest.raises(ArgumentError, match="keep different heads"):
        average_models([folders[0], pruned(1, (0,))], tmp_path / "none")


def test_a_tensor_of_one_state_is_taken_whatever_its_weight():
    one, two = {"a": torch.ones(2)}, {"a": torch.zeros(2), "b": torch.full((1,), 3.0)}
    for weight in (0.0, 0.4, 1.0):
        mixed = mixture([one, two], [1 - weight, weight])
        assert mixed["a"].tolist() == pytest.approx([1 - weight] * 2)
        assert mixed["b"].tolist() == [3.0]


@pytest.mark.parametrize("text", ["0.7", "0.7,0.2", "1.2,-0.2", "a,b", "nan,1", "0.5,0.5,0"])
def test_bad_weights_are_refused_in_one_line(text):
    with pytest.raises(ArgumentError, match="--weights .*2 numbers from 0 to 1 that sum to 1"):
        parse_weights(text, 2)


@pytest.mark.parametrize("other", [{"labels": 3}, {"layers": 1}])
def test_models_that_differ_have_no_mean(checkpoint_of, tmp_path, other):
    first = checkpoint_of()
    with pytest.raises(ArgumentError, match="differ in shape"):
        average_models([first, checkpoint_of("bert", **other)], tmp_path / "mean")
    with pytest.raises(ArgumentError, match="two models or more"):
        average_models([first], tmp_path / "mean")


@pytest.mark.parametrize("family", ["bert", "electra", "gte", "modernbert", "qwen3", "deberta-v2"])
def test_every_weight_of_a_layer_has_its_part(checkpoint_of, family):
    names = state_of(checkpoint_of(family))
    parts = {name: part_of(name, FAMILIES[family]) for name in names}
    blocks = {(layer, part) for layer in (0, 1) for part in ("attention", "feed_forward")}
    assert set(parts.values()) == {*blocks, (None, "embeddings"), (None, "head")}
    for name, (layer, part) in parts.items():
        if layer is not None and part == "attention":
            assert "mlp" not in name and "intermediate" not in name
