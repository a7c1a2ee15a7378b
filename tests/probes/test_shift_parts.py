"""The measures of what fine-tuning changes, against libraries; its words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cosine, jensenshannon

from qt_bert.data.segmenters import segmenter
from qt_bert.models.checkpoint import open_checkpoint
from qt_bert.probes.shift_maps import links
from qt_bert.probes.streams import Shared, shared_terms
from tests.probes.planted_shift import compared, opened, pairs

Build = Callable[..., Path]
JIEBA = segmenter("jieba")
PAIRS = pairs()


@pytest.mark.parametrize("family", ["bert", "xlm-roberta"])
def test_links_join_the_tokens_of_a_term(checkpoint_of: Build, family: str) -> None:
    scorer = opened(checkpoint_of(family))
    (encoded,) = scorer.tokenizer.encode([("北京票价", "高铁北京")])
    joined = {
        (int(a), int(b)) for a, b in np.argwhere(links(encoded, [Shared([(0, 2)], [(2, 4)])]))
    }
    texts = ("北京票价", "高铁北京")
    places = {
        (side, start): token
        for token, (side, (start, end)) in enumerate(zip(encoded.side, encoded.spans, strict=True))
        if side >= 0 and end == start + 1 and texts[side][start] in "北京"
    }
    query, title = (
        [places[side, at] for at in (first, first + 1)] for side, first in ((0, 0), (1, 2))
    )
    one_way = {(q, t) for q in query for t in title}
    assert joined == one_way | {(t, q) for q, t in one_way}


@pytest.fixture(scope="module")
def random_pair(checkpoint_of: Build) -> tuple[Path, Path]:
    return checkpoint_of(seed=1), checkpoint_of(seed=2)


def reference_maps(folder: Path, query: str, title: str) -> np.ndarray:
    """Hugging Face's own attention [layers, heads, L, L]."""
    checkpoint = open_checkpoint(folder)
    tokens = checkpoint.tokenizer(query, title, return_tensors="pt")
    with torch.inference_mode():
        found = checkpoint.model(**tokens, output_attentions=True).attentions
    return torch.cat(found).numpy()


def test_measures_agree_with_libraries_on_the_reference_maps(
    random_pair: tuple[Path, Path],
) -> None:
    found = compared(*random_pair)
    for row, pair in enumerate(PAIRS[:4]):
        before, after = (reference_maps(one, pair.query, pair.title) for one in random_pair)
        (encoded,) = opened(random_pair[0]).tokenizer.encode([(pair.query, pair.title)])
        text = np.array(encoded.side) >= 0
        linked = links(encoded, shared_terms(pair.query, pair.title, JIEBA).values())
        for maps, got in ((before, found.before), (after, found.after)):
            matched = (maps * linked).sum(-1)[..., linked.any(-1)].mean(-1)
            own = np.diagonal(maps, axis1=-2, axis2=-1)[..., text].mean(-1)
            sep = maps[..., encoded.separators].sum(-1)[..., text].mean(-1)
            first = maps[..., 0][..., text].mean(-1)
            np.testing.assert_allclose(
                got[row], np.stack([matched, own, sep, first], -1), atol=1e-5
            )
        for layer, head in np.ndindex(2, 2):
            one, other = before[layer, head], after[layer, head]
            want = [
                1 - cosine(one.ravel(), other.ravel()),
                1 - cosine(one[:, text].ravel(), other[:, text].ravel()),
                np.mean([jensenshannon(p, q, base=2) for p, q in zip(one, other, strict=True)]),
            ]
            np.testing.assert_allclose(found.likeness[row, layer, head], want, atol=1e-4)
