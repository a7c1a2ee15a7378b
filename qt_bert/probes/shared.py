"""What several probes measure with: attention of some tokens, streamed; heads as rows of a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch

from qt_bert.ablation.engine import Reduction, View
from qt_bert.data.segmenters import Segmenter, segmenter
from qt_bert.figures import Bars, bars, known
from qt_bert.models.batches import Batch
from qt_bert.models.heads import Head, Shape
from qt_bert.probes.base import Context
from qt_bert.probes.base_model import open_base, random_like
from qt_bert.probes.streams import stream
from qt_bert.progress import Progress, silent
from qt_bert.scoring.bulk import Scorer
from qt_bert.stats.arrays import FloatArray, IntArray
from qt_bert.stats.estimate import Estimate, Interval
from qt_bert.text import Label

Float32Array = npt.NDArray[np.float32]
Read = Callable[[torch.Tensor, Batch, torch.Tensor, IntArray], torch.Tensor]
"""Attention rows of n items [n, heads, L], their batch, each item's row in it [n] and the items'
numbers [n] → numbers [k, n, heads]."""


def attention_rows(
    scorer: Scorer,
    pairs: Sequence[tuple[str, str]],
    pair: IntArray,
    token: IntArray,
    read: Read,
    *,
    kinds: int,
    shown: Progress = silent,
) -> Float32Array:
    """What the attention of single tokens says: `read` of every item's row, float32.

    An item is a token of a pair: `pair` [items] its row in `pairs`, `token` [items] its place. One
    plain pass; no map outlives its batch. `shown` counts pairs.
    → [kinds, layers, heads, items].
    """
    shape = scorer.checkpoint.shape
    found = np.zeros((kinds, *shape.size, len(pair)), np.float32)
    if not len(pair):
        return found
    order = np.argsort(pair, kind="stable")
    cuts = np.cumsum(np.bincount(pair, minlength=len(pairs)))
    of_pair = np.split(order, cuts[:-1])

    def compute(view: View) -> torch.Tensor:
        each = [of_pair[row] for row in view.batch.rows]
        items = np.concatenate(each)
        rows = torch.from_numpy(np.repeat(np.arange(len(view.batch)), [len(one) for one in each]))
        weights = view.values[rows, :, torch.from_numpy(token[items])].float()
        numbers = read(weights, view.batch, rows, items)
        found[:, view.layer][..., items] = numbers.transpose(1, 2).cpu().numpy()
        return torch.zeros(len(view.batch))

    layers = tuple(range(shape.layers))
    stream(scorer, pairs, [Reduction("rows", "attention", layers, compute)], shown=shown)
    return found


def partition(context: Context) -> Segmenter:
    """The segmenter asked for; jieba where that one's words overlap."""
    if context.segmenter_name in ("jieba", "rjieba"):
        return context.segmenter
    return segmenter("jieba", context.userdict)


def other_models(context: Context, random_draws: int = 1) -> Iterator[tuple[str, Scorer]]:
    """The same architecture before fine-tuning (`pretrained`, where `--base` is there) and with random
    weights (`random`, so many draws), each ready to score."""
    tuned = context.model
    length = tuned.tokenizer.max_length
    if context.base is not None:
        yield "pretrained", Scorer(open_base(context.base, tuned.checkpoint), max_length=length)
    for draw in range(random_draws):
        weights = random_like(tuned.checkpoint, context.seed + draw)
        yield "random", Scorer(weights, max_length=length)


def estimate_bars(
    context: Context,
    name: str,
    categories: Sequence[str],
    series: Mapping[str, Sequence[Estimate]],
    *,
    digits: int = 2,
) -> Bars:
    """Bars of estimates with their intervals; a series has one estimate a category."""
    drawn: dict[Label, tuple[list[float | None], list[Interval | None]]] = {
        label: (
            [known(one.value) for one in estimates],
            [one.interval(context.resamples, context.seed) for one in estimates],
        )
        for label, estimates in series.items()
    }
    return bars(name, categories, drawn, digits=digits)


def head_table(shape: Shape, columns: Mapping[str, FloatArray]) -> pd.DataFrame:
    """Scores [layers, heads] by name as a table with a row for each head that is there."""
    heads: list[Head] = shape.all_heads
    return pd.DataFrame(
        {name: [float(values[head]) for head in heads] for name, values in columns.items()},
        index=[str(head) for head in heads],
    )
