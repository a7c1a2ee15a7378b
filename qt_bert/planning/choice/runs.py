"""Runs of the masked loop for choosing and measuring: in memory, or in folders that resume."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from qt_bert.ablation.blocks import BlocksOut, blocks
from qt_bert.ablation.families import MaskOf, single
from qt_bert.ablation.guards import run_guards
from qt_bert.ablation.loop import batch_tokens, sweep
from qt_bert.ablation.run_sweep import run_sweep
from qt_bert.ablation.variant import Part, Variant, with_plain
from qt_bert.encoder.heads import Head
from qt_bert.errors import ArgumentError, RunFolderError
from qt_bert.pairs import Pair
from qt_bert.planning.choice.losses import Losses, losses_of
from qt_bert.progress import Progress, silent
from qt_bert.results.probe import PairsRef
from qt_bert.scoring.bulk import Scorer


def check_removals(
    scorer: Scorer, pairs: Sequence[Pair], mask: MaskOf, *, seed: int = 0
) -> Mapping[str, Any]:
    """Prove once, before anything is chosen, that heads and blocks left out are left out.

    The runs of this room do not check again. Returns the guards' figures; raises GuardError.
    """
    shape = scorer.checkpoint.shape
    variants = single(shape, mask) + (blocks(shape) if shape.layers > 1 else [])
    encoded = scorer.tokenizer.encode([(p.query, p.title) for p in pairs], offsets=False)
    return run_guards(scorer.checkpoint, scorer.encoder, variants, encoded, seed=seed)


def parts_of(heads: Sequence[Head], layers: Sequence[int], mask: MaskOf) -> tuple[Part, ...]:
    """Heads left out by `mask` and whole layers left out, as parts of a variant.

    Heads of these layers are gone with them and need no mask.
    """
    others = [head for head in heads if head.layer not in layers]
    return (*([mask(others)] if others else []), *([BlocksOut(tuple(layers))] if layers else []))


def losses(
    scorer: Scorer,
    pairs: Sequence[Pair],
    variants: Sequence[Variant],
    *,
    work: Path | None,
    name: str,
    shown: Progress = silent,
) -> Losses:
    """The losses of the whole model and of `variants` on `pairs`; see `logits`."""
    found = logits(scorer, pairs, variants, work=work, name=name, shown=shown)
    names = [variant.name for variant in with_plain(variants)]
    return losses_of(found, names, pairs, scorer.checkpoint.settings.labels)


def logits(
    scorer: Scorer,
    pairs: Sequence[Pair],
    variants: Sequence[Variant],
    *,
    work: Path | None,
    name: str,
    shown: Progress = silent,
) -> np.ndarray:
    """Logits [1 + V, P, K] of the whole model and of `variants`; `shown` counts variants × pairs.

    With `work` they are kept in the sweep folder `work`/`name`: a finished one of the same model,
    pairs and variants is read, an unfinished one goes on, any other is replaced. Raises
    ArgumentError for no pairs, two variants of one name, or a scorer that leaves heads out.
    """
    if not pairs:
        raise ArgumentError("no pairs to choose or measure on")
    if scorer.left_out:
        raise ArgumentError("a plan takes the whole model, not one that leaves heads out")
    if work is not None and variants:
        return _stored(scorer, pairs, variants, work / name, shown)
    listed = with_plain(variants)
    texts = [(pair.query, pair.title) for pair in pairs]
    out: np.ndarray | None = None
    batches = scorer.fresh().batches(texts, batch_tokens(len(listed)))
    for swept in sweep(scorer.encoder, batches, listed, shown=shown):
        if out is None:
            out = np.empty((len(listed), len(pairs), swept.logits.shape[2]), np.float32)
        out[:, swept.rows] = swept.logits
    assert out is not None
    return out


def _stored(
    scorer: Scorer,
    pairs: Sequence[Pair],
    variants: Sequence[Variant],
    folder: Path,
    shown: Progress,
) -> np.ndarray:
    texts = "\n".join(f"{p.id}\t{p.query}\t{p.title}\t{p.label}" for p in pairs)
    reference = PairsRef(
        name=folder.name,
        sha256=hashlib.sha256(texts.encode()).hexdigest(),
        n_pairs=len(pairs),
        n_queries=len({pair.query for pair in pairs}),
    )

    run = partial(
        run_sweep,
        scorer,
        pairs,
        variants,
        folder,
        pairs_ref=reference,
        resamples=None,
        guards={},
        shown=shown,
    )
    try:
        return run(resume=True).logits
    except RunFolderError:  # of other inputs, or damaged
        return run(overwrite=True).logits
