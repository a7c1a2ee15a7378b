"""How loud each head is: the mean norm of what it writes into the residual stream."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from qt_bert.ablation.reduction import Reduction, View
from qt_bert.evaluation.arrays import FloatArray
from qt_bert.pairs import Pair
from qt_bert.probes.common.streams import stream
from qt_bert.progress import Progress, silent
from qt_bert.scoring.bulk import Scorer


def head_norms(scorer: Scorer, pairs: Sequence[Pair], *, shown: Progress = silent) -> FloatArray:
    """Mean norm of W_O · context over the real tokens of all pairs [layers, heads]; `shown` counts pairs."""
    encoder = scorer.encoder

    def norms(view: View) -> torch.Tensor:
        layer, real = encoder.layers[view.layer], view.batch.real
        written = [layer.mix_some(view.values[:, [h]], [h]) for h in range(layer.heads)]
        sizes = torch.stack([one.float().norm(dim=-1) for one in written], dim=1)
        totals = (sizes * real[:, None]).sum(-1)
        return torch.cat([totals, real.sum(-1, keepdim=True)], dim=1)

    reduction = Reduction("norms", "contexts", tuple(range(len(encoder.layers))), norms)
    texts = [(pair.query, pair.title) for pair in pairs]
    found = stream(scorer, texts, [reduction], shown=shown)["norms"][0].sum(0, dtype=np.float64)
    return np.asarray(found[:, :-1] / found[:, -1:])
