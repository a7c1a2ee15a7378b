"""A small BERT in which one head attends to the previous token by its place, whatever it is."""

import math
import random
from pathlib import Path

import numpy as np
import torch

from qt_bert.data.pairs import GradeSet, Pair
from qt_bert.scoring.bulk import Scorer
from qt_bert.scoring.judge import ranking_scores
from tests.conftest import CHARACTERS, edited

SHAPE = {"layers": 2, "heads": 4, "hidden": 64}
"""What `checkpoint_of` makes for `plant`."""

HEAD = 2
STRENGTH = 6.0


def plant(folder: Path, out: Path) -> Path:
    """The model of `folder` with L0H2 attending to the previous token. Returns `out`.

    Positions are waves of several lengths in the first dimensions, tokens signs in the last; the
    query of L0H2 is the waves one step back, its key the waves. All other queries are 0, so that
    the other heads attend evenly.
    """
    with edited(folder, out) as model:
        size = model.config.hidden_size
        width = size // model.config.num_attention_heads
        _encode(model.bert.embeddings, width, size)
        for layer in model.bert.encoder.layer:
            layer.attention.self.query.weight.zero_()
            layer.attention.self.query.bias.zero_()
        _look_back(model.bert.encoder.layer[0].attention.self, width)
    return out


def pair(query: str, title: str, grades: GradeSet = (4,)) -> Pair:
    """A pair of these texts."""
    return Pair(query, title, grades, "x", 1, None, {})


def pairs(count: int = 30, seed: int = 0) -> list[Pair]:
    """Pairs of as many queries, of graded titles without a character twice."""
    rng = random.Random(seed)
    characters = sorted({one for one in CHARACTERS if not one.isascii()})
    found = []
    for number in range(count):
        query, title = (
            "".join(rng.sample(characters, rng.randint(low, high)))
            for low, high in ((4, 8), (8, 16))
        )
        found.append(Pair(query, title, (number % 5 + 1,), str(number), number + 1, None, {}))
    return found


def _encode(embeddings: torch.nn.Module, width: int, size: int) -> None:
    """Waves and their negatives: every token has the same mean and the same norm."""
    places = embeddings.position_embeddings.weight
    places.zero_()
    waves = torch.tensor(_frequencies(width))[None] * torch.arange(len(places))[:, None]
    values = torch.cat([waves.cos(), waves.sin()], dim=1)
    places[:, :width], places[:, width : 2 * width] = values, -values
    words, generator = embeddings.word_embeddings.weight, torch.Generator().manual_seed(0)
    half = (size - 2 * width) // 2
    signs = torch.randint(2, (len(words), half), generator=generator).float() * 2 - 1
    words.zero_()
    words[:, 2 * width : 2 * width + half], words[:, 2 * width + half :] = signs, -signs
    embeddings.token_type_embeddings.weight.zero_()


def _look_back(attention: torch.nn.Module, width: int) -> None:
    rows = slice(HEAD * width, (HEAD + 1) * width)
    query, key = torch.zeros(width, attention.query.in_features), torch.zeros(width, width)
    for wave, frequency in enumerate(_frequencies(width)):
        cos, sin = math.cos(frequency), math.sin(frequency)
        other = wave + width // 2
        query[wave, wave], query[wave, other] = cos, sin
        query[other, wave], query[other, other] = -sin, cos
    key.fill_diagonal_(1.0)
    attention.query.weight[rows] = STRENGTH * query
    attention.key.weight[rows] = 0
    attention.key.weight[rows, :width] = key
    attention.key.bias.zero_()


def _frequencies(width: int) -> list[float]:
    """As many waves as a head has room for cosines and sines."""
    return [2 * math.pi * number / 48 for number in range(1, width // 2 + 1)]


def graded_by(scorer: Scorer, queries: int = 40) -> list[Pair]:
    """Three titles of each query, graded as the model ranks them: 5, 4 and 1."""
    texts = pairs(3 * queries, seed=1)
    found = []
    for number in range(queries):
        query, titles = texts[number].query, [one.title for one in texts[number::queries]]
        logits = scorer.logits([(query, title) for title in titles])
        grades = ranking_scores(logits, scorer.checkpoint.settings.labels)
        for place, grade in zip(np.argsort(-grades), (5, 4, 1), strict=True):
            found.append(pair(query, titles[place], (grade,)))
    return found
