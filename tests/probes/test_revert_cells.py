"""Attention to the same term and the same word, against a plain count over a made map."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from qt_bert.data.segmenters import SpanSegmenter
from qt_bert.models.batches import to_batch
from qt_bert.models.checkpoint import open_checkpoint
from qt_bert.probes.revert import QUANTITIES, Cells, Words

BY_TWO = SpanSegmenter("two", lambda text: [(i, i + 2) for i in range(0, len(text) - 1, 2)])
"""Words of two characters each; the last of an odd number is of none."""
QUERY, TITLE = "北京上海", "上海电影，，北京北京"


@pytest.fixture(scope="module")
def made(checkpoint_of: Callable[..., Path]) -> tuple[np.ndarray, Cells, list[str], list[int]]:
    """Random maps of the pair [heads, L, L] in a batch with a longer one; its tokens and sides."""
    tokenizer = open_checkpoint(checkpoint_of()).pair_tokenizer()
    texts = [(QUERY, TITLE), ("苹果手机多少钱一斤", "红烧排骨的家常做法查询")]
    encoded = tokenizer.encode(texts)
    batch = to_batch(np.arange(2), encoded, pad=0)
    cells = Cells.of(batch, [Words(*text, BY_TWO) for text in texts])
    length = batch.input_ids.shape[1]
    generator = torch.Generator().manual_seed(0)
    maps = torch.rand(2, 3, length, length, generator=generator)
    maps[0, :, :, len(encoded[0]) :] = 0
    spelled = ["", *QUERY, "", *TITLE, ""]
    return (maps / maps.sum(-1, keepdim=True), cells, spelled, encoded[0].side)


def word_of(spelled: list[str], side: list[int]) -> list[str | None]:
    """The word that each token of the first pair lies in."""
    words: list[str | None] = [None] * len(spelled)
    for text in (0, 1):
        places = [at for at, one in enumerate(side) if one == text]
        for first, second in zip(places[::2], places[1::2], strict=True):
            word = spelled[first] + spelled[second]
            words[first] = words[second] = None if word == "，，" else word
    return words


def test_every_quantity_is_a_plain_count(made: tuple) -> None:
    maps, cells, spelled, side = made
    words = word_of(spelled, side)
    everywhere = range(len(spelled))
    shared = {"北京", "上海"}
    got = cells.weights(maps)[0].numpy()
    for head in range(3):
        one = maps[0, head].numpy()
        rows: dict[str, list[float]] = {name: [] for name in QUANTITIES}
        for i in everywhere:
            if words[i] is None:
                continue
            like = [j for j in everywhere if words[j] == words[i]]
            own = [j for j in like if side[j] == side[i]]
            far = [j for j in like if side[j] != side[i]]
            rows["same"].append(sum(one[i, j] for j in like))
            rows["itself"].append(one[i, i])
            rows["near"].append(sum(one[i, j] for j in own if j != i))
            rows["far"].append(sum(one[i, j] for j in far))
            if words[i] in shared:
                texts = sum(one[i, j] for j in everywhere if side[j] >= 0 and j != i)
                rows["across"].append(rows["far"][-1] / texts)
        want = [np.mean(rows[name]) for name in QUANTITIES]
        np.testing.assert_allclose(got[head], want, rtol=1e-5)


def test_a_pair_without_a_common_term_has_no_match_but_words(made: tuple) -> None:
    maps, cells, *_ = made
    other = dict(zip(QUANTITIES, cells.weights(maps)[1, 0].tolist(), strict=True))
    assert np.isnan(other["across"])
    assert other["same"] == pytest.approx(other["itself"] + other["near"])
    assert other["far"] == 0


def test_more_weight_on_a_separator_leaves_the_match_across(made: tuple) -> None:
    maps, cells, _, side = made
    moved = maps.clone() / 2
    moved[..., side.index(-1)] += 0.5
    before, after = (cells.weights(one)[0, :, QUANTITIES.index("across")] for one in (maps, moved))
    torch.testing.assert_close(before, after)
    both = cells.of_both(maps, moved)
    assert both.shape == (2, 3, 2 * len(QUANTITIES))
    torch.testing.assert_close(both[0, :, len(QUANTITIES)], after)
