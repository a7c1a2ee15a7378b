"""Vectors are the model's own hidden states, at the places asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from qt_bert.data.tokenise import SPECIAL
from qt_bert.errors import ArgumentError
from qt_bert.models.checkpoint import open_checkpoint
from qt_bert.probes.layers.examples import Places
from qt_bert.probes.layers.vectors import Reader, Seen, bag_reader, reader, vectors
from qt_bert.progress import silent
from qt_bert.scoring.bulk import Scorer

Build = Callable[..., Path]
TEXTS = (("苹果多少钱", "苹果手机多少钱一斤"), ("狗追猫", "猫狗"), ("大小", "开关大小"))
FAMILIES = ("bert", "xlm-roberta", "electra")


def places_of(scorer: Scorer, unit: str) -> Places:
    """Of each text: its second and third token; or all tokens of its texts; or two spans of two tokens."""
    encoded = scorer.tokenizer.encode(TEXTS)
    if unit == "token":
        text, spans = np.repeat(np.arange(3), 2), [[[1, 2]], [[2, 3]]] * 3
    elif unit == "edge":
        text, spans = np.arange(3), [[[1, 3], [2, 4]]] * 3
    else:
        text = np.arange(3)
        spans = [[_span(one.side, side) for side in (0, 1)] for one in encoded]
    return Places(unit, TEXTS, text, np.array(spans), np.arange(3))  # type: ignore[arg-type]


def _span(sides: list[int], side: int) -> list[int]:
    return [sides.index(side), sides.index(side) + sides.count(side)]


def gathered(read: Reader, places: Places) -> np.ndarray:
    """All that is read at some places, in their order [layers, n, width]."""
    seen: list[Seen] = [one for (one,) in read([places], silent)]
    order = np.argsort(np.concatenate([one.rows for one in seen]))
    return torch.cat([one.values for one in seen], dim=1).numpy()[:, order]


def states_of(scorer: Scorer, text: int) -> np.ndarray:
    """The Hugging Face model's hidden states of one pair, without padding [layers, L, hidden]."""
    (one,) = scorer.tokenizer.encode([TEXTS[text]])
    with torch.inference_mode():
        told = scorer.encoder.backbone(
            input_ids=torch.tensor([one.input_ids]),
            token_type_ids=torch.tensor([one.token_type_ids]),
            output_hidden_states=True,
        )
    return torch.stack(told.hidden_states)[:, 0].numpy()


@pytest.fixture(scope="module", params=FAMILIES)
def scorer(request: pytest.FixtureRequest, checkpoint_of: Build) -> Scorer:
    return Scorer(open_checkpoint(checkpoint_of(request.param, layers=3)))


def test_a_token_is_its_hidden_state_in_every_layer(scorer: Scorer) -> None:
    found = gathered(reader(scorer), places_of(scorer, "token"))
    for text in range(3):
        states = states_of(scorer, text)
        assert found[:, 2 * text : 2 * text + 2] == pytest.approx(states[:, 1:3], abs=1e-4)


def test_a_text_is_the_mean_of_its_tokens_without_special_ones(scorer: Scorer) -> None:
    found = gathered(reader(scorer), places_of(scorer, "text"))
    for text, one in enumerate(scorer.tokenizer.encode(TEXTS)):
        own = [at for at, side in enumerate(one.side) if side != SPECIAL]
        expected = states_of(scorer, text)[:, own].mean(axis=1)
        assert found[:, text] == pytest.approx(expected, abs=1e-4)


def test_an_edge_is_both_words_and_their_product(scorer: Scorer) -> None:
    found = gathered(reader(scorer), places_of(scorer, "edge"))
    for text in range(3):
        states = states_of(scorer, text)
        left, right = states[:, 1:3].mean(axis=1), states[:, 2:4].mean(axis=1)
        expected = np.concatenate([left, right, left * right], axis=1)
        assert found[:, text] == pytest.approx(expected, abs=1e-4)


def test_a_bag_is_the_mean_of_word_embeddings_whatever_their_order(scorer: Scorer) -> None:
    places = places_of(scorer, "text")
    found = gathered(bag_reader(scorer), places)
    table = scorer.encoder.backbone.embeddings.word_embeddings.weight.detach().numpy()
    for text, one in enumerate(scorer.tokenizer.encode(TEXTS)):
        ids = [id for id, side in zip(one.input_ids, one.side, strict=True) if side != SPECIAL]
        assert found[0, text] == pytest.approx(table[ids].mean(axis=0), abs=1e-4)
    assert len(found) == 1


def test_some_layers_are_those_of_all(scorer: Scorer) -> None:
    places = places_of(scorer, "token")
    every = gathered(reader(scorer), places)
    assert (gathered(reader(scorer, [2, 0]), places) == every[[2, 0]]).all()


def test_places_of_one_pass_are_read_as_alone(scorer: Scorer) -> None:
    tokens, texts = places_of(scorer, "token"), places_of(scorer, "text")
    first = replace(texts, text=texts.text[:1], spans=texts.spans[:1])
    for seen in vectors(scorer, [tokens, first]):
        assert seen[0].values.shape[1] == len(seen[0].rows)
        assert set(seen[1].rows) <= {0}
        if len(seen[1].rows):
            assert seen[1].values[:, 0].numpy() == pytest.approx(
                gathered(reader(scorer), texts)[:, 0], abs=1e-6
            )


def test_places_of_other_texts_are_refused(checkpoint_of: Build) -> None:
    scorer = Scorer(open_checkpoint(checkpoint_of("bert")))
    places = places_of(scorer, "token")
    with pytest.raises(ArgumentError, match="same texts"):
        next(vectors(scorer, [places, replace(places, texts=TEXTS[::-1])]))


def test_a_layer_that_is_not_there_is_refused(checkpoint_of: Build) -> None:
    scorer = Scorer(open_checkpoint(checkpoint_of("bert")))
    with pytest.raises(ArgumentError, match="r5: the model has r0 to r2"):
        next(vectors(scorer, [places_of(scorer, "token")], [5]))
