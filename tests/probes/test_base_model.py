"""The base of a tuned model, random weights of its shape, and a model of another seed."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from qt_bert.data.templates import TEMPLATES
from qt_bert.errors import CheckpointError
from qt_bert.models.opening import open_checkpoint
from qt_bert.probes.base_model import open_base, open_second, other_seed, random_like
from qt_bert.probes.streams import stream
from qt_bert.scoring.bulk import Scorer
from tests.conftest import LEARNED

PAIRS = [("京东小哥", "京东小哥最近在干嘛"), ("狗追猫", "猫追狗")]


@pytest.fixture
def pretrained(tmp_path, checkpoint_of) -> Path:
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


def test_a_base_reads_the_tokens_of_the_tuned_model(checkpoint_of):
    like = open_checkpoint(checkpoint_of("qwen3"))
    settings = replace(like.settings, template=TEMPLATES["qwen3-reranker"])
    base = open_base(checkpoint_of("qwen3", seed=1), replace(like, settings=settings))
    assert base.settings.template == settings.template


def test_random_weights_repeat_and_leave_torch_alone(pretrained, checkpoint_of):
    like = open_checkpoint(checkpoint_of())
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    first, second = open_base(pretrained, like), open_base(pretrained, like)
    assert torch.equal(torch.rand(3), expected)
    assert torch.equal(first.model.classifier.weight, second.model.classifier.weight)


@pytest.mark.parametrize(
    ("family", "options", "message"),
    [
        ("bert", {"layers": 3}, "number of layers"),
        ("bert", {"heads": 4}, "number of heads"),
        ("bert", {"positions": 48}, "number of positions"),
        ("electra", {}, "encoder family"),
    ],
)
def test_another_shape_is_no_base(checkpoint_of, family, options, message):
    like = open_checkpoint(checkpoint_of())
    with pytest.raises(CheckpointError, match=f"{message}.*--base"):
        open_base(checkpoint_of(family, **options), like)


@pytest.mark.parametrize("family", LEARNED)
def test_random_weights_come_from_the_seed_alone(checkpoint_of, family):
    like = open_checkpoint(checkpoint_of(family))
    first, again, other = (random_like(like, seed) for seed in (3, 3, 4))
    weights = [
        one.family.projections(one.family.layers_of(one.model)[0])[0].weight
        for one in (first, again, other, like)
    ]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2]) and not torch.equal(weights[0], weights[3])
    assert not first.model.training
    assert first.sha256 == again.sha256
    assert len({first.sha256, other.sha256, like.sha256}) == 3
    assert (first.layers, first.dtype, first.folder) == (like.layers, like.dtype, like.folder)


def test_another_seed_is_scored_as_the_first(context_of, checkpoint_of):
    model, folder = checkpoint_of(), checkpoint_of(seed=4)
    like = open_checkpoint(model)
    opened = {"open_model": lambda: Scorer(like, max_length=20)}
    found = other_seed(context_of(model, second=folder, **opened), lambda scorer: scorer)
    assert found is not None
    name, scorer = found
    assert scorer.tokenizer.max_length == 20
    assert scorer.checkpoint.sha256 == open_second(folder, like).sha256 != like.sha256
    assert name.en == f"another seed ({folder.name})" and folder.name in name.zh
    assert other_seed(context_of(model), lambda scorer: scorer) is None
    with pytest.raises(CheckpointError, match="its weights are those of"):
        open_second(model, like)
    with pytest.raises(CheckpointError, match="number of layers.*--second"):
        open_second(checkpoint_of(layers=3), like)
