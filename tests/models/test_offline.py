"""Offline models against the Hugging Face model run once for each of its layers, and the errors."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from qt_bert.errors import ArgumentError, CheckpointError
from qt_bert.models.batches import CLS, QUERY, TITLE, to_batch
from qt_bert.models.card import CARD, Offline
from qt_bert.models.checkpoint import open_checkpoint, smaller_checkpoint
from qt_bert.results.kept import KeptLayer
from qt_bert.scoring.bulk import Scorer
from tests.conftest import LEARNED

OPTIONS = {"layers": 3, "heads": 4, "hidden": 16}
TEXTS = [
    ("北京到上海高铁票价", "北京上海高铁票多少钱"),
    ("狗", "猫"),
    ("苹果", "苹果手机多少钱" * 5),
    ("怎么去除衣服上的油渍怎么去除", "红烧排骨"),
]


def expected(checkpoint, row) -> torch.Tensor:
    """Logits [1, labels] of one pair: embeddings at written-out positions, layers under 4-D masks."""
    model, offline = checkpoint.model, checkpoint.offline
    backbone = getattr(model, checkpoint.family.backbone)
    (sides,) = to_batch(np.array([0]), [row], pad=0).groups.tolist()
    start = max(offline.title_start, sum(side != TITLE for side in sides))
    title = iter(range(start, start + len(sides)))
    positions = [next(title) if side == TITLE else place for place, side in enumerate(sides)]
    first = 2 if checkpoint.family.model_type == "xlm-roberta" else 0
    first = 1 if checkpoint.family.model_type == "roberta" else first
    hidden = backbone.embeddings(
        input_ids=torch.tensor([row.input_ids]),
        token_type_ids=torch.tensor([row.token_type_ids]),
        position_ids=torch.tensor([positions]) + first,
    )
    if hasattr(backbone, "embeddings_project"):
        hidden = backbone.embeddings_project(hidden)
    apart = torch.full((1, 1, len(sides), len(sides)), float("-inf"))
    sees = {CLS: {CLS, QUERY}, QUERY: {QUERY}, TITLE: {TITLE}}
    for one, side in enumerate(sides):
        for other, seen in enumerate(sides):
            if seen in sees[side]:
                apart[0, 0, one, other] = 0
    for number, layer in enumerate(backbone.encoder.layer):
        given = layer(hidden, apart if number < offline.layers else None)
        hidden = given[0] if isinstance(given, tuple) else given
    return checkpoint.family.head(model, hidden[:, :1])


@pytest.mark.parametrize("family", LEARNED)
@pytest.mark.parametrize("below", [0, 1, 2])
@torch.inference_mode()
def test_equal_to_the_hugging_face_layers(offline_checkpoint_of, family, below):
    checkpoint = open_checkpoint(offline_checkpoint_of(family, below=below, **OPTIONS))
    scorer = Scorer(checkpoint)
    rows = scorer.tokenizer.encode(TEXTS)
    got = scorer.logits(TEXTS)
    want = torch.cat([expected(checkpoint, row) for row in rows]).numpy()
    np.testing.assert_allclose(got, want, atol=1e-5)
    assert scorer.logits_of(rows) == pytest.approx(got, abs=1e-5)
    for logits, text in zip(got, TEXTS, strict=True):  # alone, so without padding
        np.testing.assert_allclose(scorer.logits([text])[0], logits, atol=1e-5)


def test_no_more_of_a_title_than_its_own_length(offline_checkpoint_of):
    folder = offline_checkpoint_of("bert", tokens=7, start=10, **OPTIONS)
    scorer = Scorer(open_checkpoint(folder))
    rows = scorer.tokenizer.encode(
        [("狗", "苹果手机多少钱一斤"), ("狗追猫" * 9, "苹果手机多少钱一斤")]
    )
    titles = [[i for i, side in zip(r.input_ids, r.side, strict=True) if side == 1] for r in rows]
    assert titles[0] == titles[1]
    assert len(titles[0]) == 7
    assert [row.title_truncated for row in rows] == [True, True]
    assert [row.query_truncated for row in rows] == [False, False]


def test_a_smaller_model_keeps_the_block_of_its_layers(offline_checkpoint_of):
    checkpoint = open_checkpoint(offline_checkpoint_of("bert", below=2, **OPTIONS))
    first, second, third = (KeptLayer(layer=layer, heads=(0, 1, 2, 3)) for layer in range(3))
    assert smaller_checkpoint(checkpoint, [first, third]).offline == Offline(1, 12, 20)
    with pytest.raises(ArgumentError, match="no layer in which the texts meet"):
        smaller_checkpoint(checkpoint, [first, second])


def test_texts_without_sides_are_refused(offline_checkpoint_of):
    encoder = open_checkpoint(offline_checkpoint_of("bert", **OPTIONS)).encoder()
    ids = torch.ones(1, 4, dtype=torch.long)
    with pytest.raises(ArgumentError, match="texts without sides"):
        encoder.logits(ids, torch.zeros_like(ids))


@pytest.mark.parametrize(
    ("block", "message"),
    [
        (6, "not an object of layers, title_start, title_tokens"),
        ({"layers": 1}, "not an object of layers"),
        ({"layers": -1, "title_start": 9, "title_tokens": 5}, "layers -1, not a number from 0"),
        ({"layers": 1, "title_start": True, "title_tokens": 5}, "title_start True"),
        ({"layers": 3, "title_start": 9, "title_tokens": 5}, "3 offline layers of 3"),
    ],
)
def test_a_block_that_cannot_be_is_refused(offline_checkpoint_of, block, message):
    folder = offline_checkpoint_of("bert", **OPTIONS)
    (folder / CARD).write_text(json.dumps({"offline": block}), encoding="utf-8")
    with pytest.raises(CheckpointError, match=message):
        open_checkpoint(folder)


def test_room_for_the_whole_title_behind_its_start(offline_checkpoint_of):
    checkpoint = open_checkpoint(offline_checkpoint_of("bert", start=12, tokens=20, **OPTIONS))
    assert Scorer(checkpoint, max_length=33).tokenizer.max_length == 33
    with pytest.raises(ArgumentError, match="--max-length 32: titles of .* give 33 or more"):
        Scorer(checkpoint, max_length=32)


def test_the_block_is_stored_and_described(offline_checkpoint_of, tmp_path):
    checkpoint = open_checkpoint(offline_checkpoint_of("bert", below=2, **OPTIONS))
    checkpoint.settings.write(tmp_path)
    block = {"layers": 2, "title_start": 12, "title_tokens": 20}
    assert json.loads((tmp_path / CARD).read_text(encoding="utf-8"))["offline"] == block
    assert checkpoint.describe()["offline"] == block
