"""Computing title states: titles beside an empty query, through the layers below their meeting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from qt_bert.encoder import Checkpoint
from qt_bert.encoder.batches import TITLE, batches_of
from qt_bert.encoder.offline import Offline
from qt_bert.errors import CheckpointError
from qt_bert.pairs.tokenise import EncodedPair
from qt_bert.scoring.title_states.halves import KEY, title_at, title_key
from qt_bert.scoring.title_states.quantising import Format, pack
from qt_bert.scoring.title_states.states import Part, TitleStates, token_rows

if TYPE_CHECKING:
    from qt_bert.scoring.bulk import Scorer


def block_of(checkpoint: Checkpoint) -> Offline:
    """The block of an offline model. Raises CheckpointError for a model that is none."""
    checkpoint.check_heads()
    if checkpoint.offline is None or not checkpoint.offline.layers:
        raise CheckpointError(
            f"{checkpoint.name} is no offline model: query and title meet in its first layer, so "
            "nothing of a title can be computed before the query comes; train an offline one with "
            "`qt-bert train --offline-layers`"
        )
    return checkpoint.offline


def states_of(scorer: Scorer, titles: Sequence[str], dtype: Format = "float32") -> TitleStates:
    """The states of titles, held in memory; equal titles have one entry.

    Raises CheckpointError where the scorer's model is no offline one.
    """
    block = block_of(scorer.checkpoint)
    encoded = {title_key(one): one for one in encode_titles(scorer, titles)}
    part = compute(scorer, list(encoded.values()), dtype)
    return TitleStates(block, dtype, hidden_of(scorer.checkpoint), (part,))


def encode_titles(scorer: Scorer, titles: Sequence[str]) -> list[EncodedPair]:
    """Titles as tokens, each beside an empty query, cut as they are beside any."""
    return scorer.tokenizer.encode([("", title) for title in titles], offsets=False)


def hidden_of(checkpoint: Checkpoint) -> int:
    """Numbers in a token's state."""
    return int(checkpoint.model.config.hidden_size)


@torch.inference_mode()
def compute(scorer: Scorer, encoded: Sequence[EncodedPair], dtype: Format) -> Part:
    """The states of titles that `encode_titles` encoded, in their order."""
    checkpoint = scorer.checkpoint
    layers = block_of(checkpoint).layers
    lengths = np.array([len(one) - title_at(one) for one in encoded], np.int64)
    starts = np.cumsum(lengths) - lengths
    states = np.empty((lengths.sum(), hidden_of(checkpoint)), np.float32)
    for batch in batches_of(encoded, scorer.batch_tokens, pad=scorer.pad):
        found = scorer.encoder.below(batch, layers)[batch.groups == TITLE]
        rows = token_rows(starts[batch.rows], lengths[batch.rows])
        states[rows] = found.float().numpy()
    keys = np.array([title_key(one) for one in encoded], KEY)
    packed = pack(states, dtype)
    return Part(keys, lengths.astype(np.int32), lambda: packed)
