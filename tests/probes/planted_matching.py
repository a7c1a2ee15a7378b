"""A small BERT in which one head attends to the same character in the other text, and one at an offset."""

from pathlib import Path

import numpy as np

from qt_bert.heads import Head
from tests.conftest import CHARACTERS, edited, make_checkpoint

MATCHING, OFFSET = Head(1, 2), Head(0, 1)
LENGTH = 4
"""Characters of a query; a title begins with its query, so that every one of its characters stands
LENGTH + 1 tokens behind it."""

LAYERS, HEADS, WIDTH = 2, 4, 32
_CODE, _SEGMENT, _POSITIONS = slice(0, 30), 30, slice(32, 64)
_SCALE = 1.5


def plant_matching(folder: Path) -> Path:
    """Save the model: 2 layers of 4 heads, all of them uniform but MATCHING and OFFSET."""
    shape = {"layers": LAYERS, "heads": HEADS, "hidden": HEADS * WIDTH, "positions": WIDTH}
    make_checkpoint(folder, **shape, initializer_range=0.02)
    with edited(folder) as model:
        _embed(model.bert.embeddings, model.config.vocab_size)
        for layer in model.bert.encoder.layer:
            for part in (layer.attention.self.query, layer.attention.self.key):
                part.weight.zero_()
            for part in (layer.attention.output.dense, layer.output.dense):
                part.weight.mul_(0.01)
        _plant(model, MATCHING, _same_character())
        _plant(model, OFFSET, _same_offset())
    return folder


def _embed(embeddings: object, vocabulary: int) -> None:
    """A random ±1 code a character, none for special tokens; segments ±4; positions one-hot."""
    import torch

    words, positions, segments = (
        getattr(embeddings, f"{name}_embeddings").weight
        for name in ("word", "position", "token_type")
    )
    for weight in (words, positions, segments):
        weight.zero_()
    words[5:, _CODE] = torch.randint(0, 2, (vocabulary - 5, 30)).float() * 2 - 1
    positions[:, _POSITIONS] = torch.eye(32) * 4
    segments[0, _SEGMENT], segments[1, _SEGMENT] = 4.0, -4.0


def _same_character() -> tuple[np.ndarray, np.ndarray]:
    """Query and key projections [WIDTH, hidden]: the same code, the other segment."""
    query, key = np.zeros((2, WIDTH, HEADS * WIDTH))
    query[_CODE, _CODE] = key[_CODE, _CODE] = np.eye(30)
    query[_SEGMENT, _SEGMENT], key[_SEGMENT, _SEGMENT] = -1, 1
    return query, key


def _same_offset() -> tuple[np.ndarray, np.ndarray]:
    """The token LENGTH + 1 further on."""
    query, key = np.zeros((2, WIDTH, HEADS * WIDTH))
    key[:, _POSITIONS] = np.eye(WIDTH)
    query[:, _POSITIONS] = np.roll(np.eye(WIDTH), LENGTH + 1, axis=0)
    return query, key


def _plant(model: object, head: Head, projections: tuple[np.ndarray, np.ndarray]) -> None:
    import torch

    attention = model.bert.encoder.layer[head.layer].attention.self
    rows = slice(head.head * WIDTH, (head.head + 1) * WIDTH)
    for part, projection in zip((attention.query, attention.key), projections, strict=True):
        part.weight[rows] = torch.from_numpy(projection * _SCALE).float()


def pairs_of(count: int, seed: int = 0) -> list[tuple[str, str, int]]:
    """(query, title, grade): a query of LENGTH different characters, and more behind it in the title."""
    rng = np.random.default_rng(seed)
    han = sorted({one for one in CHARACTERS if not one.isascii()} - set("的了怎么和个"))
    found = []
    for number in range(count):
        drawn = "".join(rng.permutation(han)[: LENGTH + 5])
        found.append((drawn[:LENGTH], drawn, 1 + number % 5))
    return found
