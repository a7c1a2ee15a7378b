"""Where titles begin and how long they may be, by the queries of discovery: as `train` chooses it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from qt_bert.encoder.offline import Offline
from qt_bert.pairs import PairTokenizer
from qt_bert.planning.task import Sample
from qt_bert.scoring.title_states.halves import title_at
from qt_bert.training.offline import Measured


@dataclass(frozen=True)
class Layout:
    """`offline` has no layers yet; `long` is the share of the pairs whose query reaches beyond."""

    offline: Offline
    long: float


def layout_of(tokenizer: PairTokenizer, sample: Sample) -> Layout | None:
    """Titles begin behind 95 % of the sample's queries, and may fill what is left of the length.

    None where that leaves no token for a title.
    """
    measured = Measured(sample.pairs, sample.ref.name, tokenizer)
    start = measured.title_start()
    left = tokenizer.max_length - start - tokenizer.title_separators
    if left < 1:
        return None
    return Layout(Offline(0, start, left), float((measured.before > start).mean()))


def before_titles(tokenizer: PairTokenizer, queries: Sequence[str]) -> np.ndarray:
    """How many tokens each query puts before a title [n]: the first token, its own, a separator."""
    encoded = tokenizer.encode([(query, "") for query in queries], offsets=False)
    return np.array([title_at(one) for one in encoded])
