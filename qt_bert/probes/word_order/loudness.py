"""How much every head adds to the tokens it writes to: what the second control is matched on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from qt_bert.ablation.reduction import Reduction, View
from qt_bert.evaluation.arrays import FloatArray
from qt_bert.probes.common.streams import stream
from qt_bert.progress import Progress, silent
from qt_bert.scoring.bulk import Scorer


def mean_norms(
    scorer: Scorer, texts: Sequence[tuple[str, str]], *, shown: Progress = silent
) -> FloatArray:
    """The norm of W_O·context of each head, averaged over a pair's tokens and over pairs [layers, heads]."""
    layers = scorer.encoder.layers

    def norms(view: View) -> torch.Tensor:
        layer, real = layers[view.layer], view.batch.real
        heads = [
            layer.mix_some(view.values[:, [head]], [head]).float().norm(dim=-1)
            for head in range(layer.heads)
        ]
        return (torch.stack(heads, 1) * real[:, None]).sum(-1) / real.sum(-1, keepdim=True)

    reduction = Reduction("norms", "contexts", tuple(range(len(layers))), norms)
    found = stream(scorer, texts, [reduction], shown=shown)["norms"]
    return np.asarray(found[0].mean(axis=0, dtype=np.float64))
