"""How loud each head is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from qt_bert.data.pairs import Pair
from qt_bert.models.checkpoint import open_checkpoint
from qt_bert.probes.streams import head_norms
from qt_bert.scoring.bulk import Scorer


@torch.inference_mode()
def test_norms_are_those_of_what_a_head_adds(checkpoint_of: Callable[..., Path]) -> None:
    scorer = Scorer(open_checkpoint(checkpoint_of()))
    texts = [("狗追猫", "猫追狗"), ("狗", "北京到上海")]
    layer = scorer.encoder.layers[0]
    norms: list[float] = []
    for batch in scorer.batches(texts, 1):
        query, key, value = layer.project(scorer.encoder.embed(batch))
        context = (query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5).softmax(-1) @ value
        own = layer.output.weight[:, : context.shape[-1]]  # head 0
        norms += (context[0, 0] @ own.T).norm(dim=-1).tolist()
    pairs = [Pair(q, t, None, str(i), i, None, {}) for i, (q, t) in enumerate(texts)]
    assert head_norms(scorer, pairs)[0, 0] == pytest.approx(sum(norms) / len(norms), rel=1e-4)
