"""What breaks in a forward of other families, each with the case that shows it."""

import numpy as np
import pytest
import torch

from qt_bert.ablation.engine import sweep
from qt_bert.ablation.interventions import NONE, Variant
from qt_bert.ablation.masks import HeadMask
from qt_bert.ablation.reference import PlainModel
from qt_bert.heads import Head
from qt_bert.models.batches import batches_of
from qt_bert.models.forward import hidden_places
from qt_bert.models.opening import open_checkpoint
from qt_bert.scoring.bulk import Scorer
from tests.models.reference import logits_alone

LONG = [("票价" * 20, "上海北京高铁" * 15), ("狗", "猫" * 110), ("苹果", "手机")]


def theirs(checkpoint, texts=LONG) -> np.ndarray:
    return logits_alone(checkpoint, texts, max_length=128)


def ours(checkpoint, texts=LONG) -> np.ndarray:
    return Scorer(checkpoint, max_length=128).logits(texts)


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_local_layers_of_true_width_matter_beyond_65_tokens(fresh_checkpoint, pooling):
    options = {
        "local_attention": 128,
        "global_attn_every_n_layers": 3,
        "classifier_pooling": pooling,
    }
    checkpoint = open_checkpoint(fresh_checkpoint("modernbert", layers=4, positions=256, **options))
    layers = checkpoint.encoder().layers
    assert [layer.window for layer in layers] == [None, 64, 64, None]
    np.testing.assert_allclose(ours(checkpoint), theirs(checkpoint), atol=2e-5)
    assert hidden_places(65, 64, False, torch.device("cpu")) is None
    seen = ~hidden_places(66, 64, False, torch.device("cpu"))
    assert int((~seen).sum()) == 2 and not seen[0, 65] and not seen[65, 0]


def test_query_and_key_are_normed_by_head(fresh_checkpoint):
    checkpoint = open_checkpoint(fresh_checkpoint("qwen3", layers=2, positions=256))
    before = ours(checkpoint, LONG[2:])
    with torch.no_grad():
        for layer in checkpoint.model.model.layers:
            layer.self_attn.q_norm.weight *= 3
    after = ours(checkpoint, LONG[2:])
    np.testing.assert_allclose(after, theirs(checkpoint, LONG[2:]), atol=2e-5)
    assert np.abs(after - before).max() > 1e-3


def test_a_mean_of_all_tokens_sees_every_row(fresh_checkpoint):
    """A head left out in the last layer changes the mean by every token, not by the first alone."""
    checkpoint = open_checkpoint(fresh_checkpoint("modernbert", classifier_pooling="mean"))
    encoded = checkpoint.pair_tokenizer().encode(LONG[1:])
    (batch,) = batches_of(encoded, 1000, pad=checkpoint.pad)
    without = Variant("L1H0", (HeadMask((Head(1, 0),)),))
    (swept,) = sweep(checkpoint.encoder(), [batch], [NONE, without])
    hooked = PlainModel(checkpoint.model, checkpoint.family).logits(batch, without.parts)
    np.testing.assert_allclose(swept.logits[1], hooked, atol=2e-5)
    assert np.abs(swept.logits[0] - swept.logits[1]).max() > 1e-3
