"""The tuned model with its embeddings and lowest layers as they were before fine-tuning.

Rogers et al. 2020 (`primer_in_bertology`) report that setting the lower layers of a tuned model back
to the pretrained weights costs little.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from qt_bert.ablation.engine import batch_tokens
from qt_bert.data.pairs import Pair
from qt_bert.models.batches import Batch
from qt_bert.models.forward import Encoder, Layer, attend
from qt_bert.progress import Progress, silent
from qt_bert.scoring.bulk import Scorer


def set_back_logits(
    base: Encoder,
    scorer: Scorer,
    pairs: Sequence[Pair],
    depths: Sequence[int],
    *,
    shown: Progress = silent,
) -> np.ndarray:
    """Logits [1 + depths, pairs, outputs]: the tuned model, then with k layers set back for each k.

    Depth k takes the embeddings and the layers 0 … k − 1 of `base`; k = 0 the embeddings alone.
    `shown` counts pairs.
    """
    texts = [(pair.query, pair.title) for pair in pairs]
    outputs = scorer.checkpoint.settings.labels.logits
    found = np.empty((1 + len(depths), len(pairs), outputs), np.float32)
    for batch in scorer.fresh().batches(texts, batch_tokens()):
        found[:, batch.rows] = _of_batch(base, scorer.encoder, batch, depths).float().numpy()
        shown.advance(len(batch))
    return found


@torch.inference_mode()
def _of_batch(base: Encoder, tuned: Encoder, batch: Batch, depths: Sequence[int]) -> torch.Tensor:
    """Logits [1 + depths, B, outputs] of one batch.

    The base goes up once, and what it hands on after k of its layers joins the batch that the tuned
    layers above go on with, so no layer is computed twice for the same input.
    """
    size = len(batch)
    earlier = base.embed(batch)
    going = {-1: tuned.embed(batch)}
    layers = zip(base.layers, tuned.layers, tuned.biases(batch), strict=True)
    for below, (old, new, bias) in enumerate(layers):
        if below in depths:
            going[below] = earlier
        hidden = torch.cat(list(going.values()))
        repeated = None if bias is None else bias.repeat(len(going), 1, 1, 1)
        going = dict(zip(going, _through(new, hidden, repeated).split(size), strict=True))
        if max(depths, default=-1) > below:
            earlier = _through(old, earlier, bias)
    if len(tuned.layers) in depths:
        going[len(tuned.layers)] = earlier
    first = torch.stack([going[depth][:, :1] for depth in (-1, *depths)])
    logits = tuned.family.head(tuned.model, first.flatten(0, 1))
    return logits.unflatten(0, first.shape[:2])


def _through(layer: Layer, hidden: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    query, key, value = layer.project(hidden)
    return layer.finish(attend(query, key, value, bias), hidden)


def third(layers: int) -> int:
    """n/3 layers, the depth that the claim is about; at least one."""
    return max(1, round(layers / 3))


def depths_of(layers: int, most: int | None = None) -> tuple[int, ...]:
    """Depths to look at: 0, n/3, n, and all others or at about `most` even steps."""
    step = 1 if most is None else max(1, round(layers / most))
    return tuple(sorted({*range(0, layers + 1, step), third(layers), layers}))
