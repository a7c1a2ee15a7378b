"""What stored title states take, by the titles of discovery."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from qt_bert.results.offline import StoredTitles
from qt_bert.scoring.bulk import Scorer
from qt_bert.scoring.title_states.computing import encode_titles, hidden_of
from qt_bert.scoring.title_states.halves import KEY, title_at
from qt_bert.scoring.title_states.quantising import FORMATS, Format, pack
from qt_bert.scoring.title_states.states import Part


def stored_titles(moved: Scorer, titles: Iterable[str]) -> StoredTitles:
    """Bytes a title in the mean over the distinct ones, as an offline model cuts them.

    They are the same whatever the number of layers: a state for each token, separators included.
    """
    encoded = encode_titles(moved, list(dict.fromkeys(titles)))
    tokens, times = np.unique([len(one) - title_at(one) for one in encoded], return_counts=True)
    hidden = hidden_of(moved.checkpoint)

    def size(kind: Format) -> float:
        each = [_bytes_of(int(count), hidden, kind) for count in tokens]
        return float(np.average(each, weights=times))

    return StoredTitles(
        titles=len(encoded),
        tokens=float(np.average(tokens, weights=times)),
        size={kind: size(kind) for kind in FORMATS},
    )


def _bytes_of(tokens: int, hidden: int, kind: Format) -> int:
    """Bytes that a title of so many tokens takes, its key among them."""
    states = np.zeros((tokens, hidden), np.float32)
    return Part(np.zeros(1, KEY), np.array([tokens], np.int32), lambda: pack(states, kind)).bytes
