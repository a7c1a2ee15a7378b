"""The base of a tuned model, and random weights of its shape."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from qt_bert.errors import CheckpointError
from qt_bert.models.checkpoint import open_checkpoint
from qt_bert.probes.base_model import open_base, open_second, random_like
from qt_bert.probes.streams import stream
from qt_bert.scoring.bulk import Scorer

PAIRS = [("京东小哥", "京东小哥最近在干嘛"), ("狗追猫", "猫追狗")]


@pytest.fixture
def pretrained(tmp_path: Path, checkpoint_of) -> Path:
    """A BertForPreTraining folder with other weights than the tiny classifier's."""
    from transformers import BertConfig, BertForPreTraining

    like = open_checkpoint(checkpoint_of())
    folder = tmp_path / "pretrained"
    torch.manual_seed(5)
    BertForPreTraining(BertConfig.from_dict(like.model.config.to_dict())).save_pretrained(folder)
    like.tokenizer.save_pretrained(folder)
    return folder


def test_a_pretraining_folder_opens_with_its_encoder(pretrained, checkpoint_of):
    from transformers import BertForPreTraining

    like = open_checkpoint(checkpoint_of())
    base = open_base(pretrained, like)
    assert (base.layers, base.heads, base.dtype) == (like.layers, like.heads, "float32")
    assert base.settings.labels.logits == like.settings.labels.logits
    assert base.settings.max_length == like.settings.max_length
    theirs = BertForPreTraining.from_pretrained(pretrained).bert.encoder.state_dict()
    ours = base.model.bert.encoder.state_dict()
    assert all(torch.equal(ours[name], weight) for name, weight in theirs.items())
    assert stream(Scorer(base), PAIRS, [])["logits"].shape == (1, 2, 5)


def test_what_is_made_up_is_the_same_each_time_and_leaves_torch_alone(pretrained, checkpoint_of):
    like = open_checkpoint(checkpoint_of())
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    first, second = open_base(pretrained, like), open_base(pretrained, like)
    assert torch.equal(torch.rand(3), expected)
    assert torch.equal(first.model.classifier.weight, second.model.classifier.weight)


@pytest.mark.parametrize(
    ("options", "word"),
    [({"layers": 3}, "layers"), ({"heads": 4}, "heads"), ({"positions": 48}, "positions")],
)
def test_another_shape_is_no_base(checkpoint_of, options, word):
    like = open_checkpoint(checkpoint_of())
    with pytest.raises(CheckpointError, match=f"number of {word}.*--base"):
        open_base(checkpoint_of(**options), like)


def test_another_family_is_no_base(checkpoint_of):
    with pytest.raises(CheckpointError, match="encoder family"):
        open_base(checkpoint_of("electra"), open_checkpoint(checkpoint_of()))


@pytest.mark.parametrize("family", ["bert", "ernie", "roberta", "xlm-roberta", "electra"])
def test_random_weights_come_from_the_seed_alone(checkpoint_of, family):
    like = open_checkpoint(checkpoint_of(family))
    first, again, other = (random_like(like, seed) for seed in (3, 3, 4))
    name = "encoder.layer.0.attention.self.query.weight"
    weights = [
        getattr(one.model, one.family.backbone).state_dict()[name]
        for one in (first, again, other, like)
    ]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2]) and not torch.equal(weights[0], weights[3])
    assert not first.model.training
    assert first.sha256 == again.sha256
    assert len({first.sha256, other.sha256, like.sha256}) == 3
    assert (first.layers, first.dtype, first.folder) == (like.layers, like.dtype, like.folder)


def test_a_second_model_is_another_of_the_same_shape(checkpoint_of):
    like = open_checkpoint(checkpoint_of())
    assert open_second(checkpoint_of(seed=1), like).sha256 != like.sha256
    with pytest.raises(CheckpointError, match="its weights are those of"):
        open_second(checkpoint_of(), like)
    with pytest.raises(CheckpointError, match="number of layers.*--second"):
        open_second(checkpoint_of(layers=3), like)
