"""A small BERT that reads one of two signs of every token and lets the other be."""

import random
from itertools import product
from pathlib import Path

import numpy as np
import torch
from transformers import AutoTokenizer

from qt_bert.data.pairs import Pair
from qt_bert.data.tokenise import QUERY, TITLE
from qt_bert.models.opening import open_checkpoint
from qt_bert.probes.layers_reading import MATCHED, POS, Examples, Positions, Property, Task
from qt_bert.probes.streams import characters_of
from qt_bert.stats.arrays import IntArray
from tests.conftest import CHARACTERS, edited

SHAPE = {"layers": 2, "heads": 2, "hidden": 192}
"""What `checkpoint_of` makes for `plant`."""

USED, UNUSED = MATCHED, POS
"""Names for the two signs; here unrelated to words."""
HAN = sorted({one for one in CHARACTERS if not one.isascii()})
READ, IDLE, CARRIED, SIDE = range(4)
"""Dimensions: the sign that is read, the one that is not, the mean of the first, the text."""
GAIN, STRENGTH = 2.0, 4.0
LOUDNESS = torch.tensor([1.0, 0.5])
"""Of both signs: a quieter one has controls that take less besides."""


def signs(character: str) -> tuple[int, int]:
    """The two signs of a character, 0 or 1 each, independent of one another."""
    number = HAN.index(character)
    return number % 2, number // 2 % 2


def plant(folder: Path, out: Path) -> Path:
    """The model of `folder`, whose grade is the mean of the first sign of the query's characters.

    Words hold their signs in the first two dimensions and random signs in the others, everything with its
    negative beside it. In the last layer one head attends evenly to the query and carries the mean of
    the first sign to where the classifier reads. Returns `out`.
    """
    tokenizer = AutoTokenizer.from_pretrained(folder)
    with edited(folder, out) as model:
        half = model.config.hidden_size // 2
        for name, parameter in model.named_parameters():
            if "LayerNorm" not in name:
                parameter.zero_()
        code = torch.randn(len(tokenizer), half, generator=torch.Generator().manual_seed(1)).sign()
        code[:, : SIDE + 1] = 0
        for character in HAN:
            row = torch.tensor([2.0 * sign - 1 for sign in signs(character)]) * LOUDNESS
            code[tokenizer.convert_tokens_to_ids(character), [READ, IDLE]] = row
        model.bert.embeddings.word_embeddings.weight.copy_(torch.cat([code, -code], 1))
        sides = model.bert.embeddings.token_type_embeddings.weight
        sides[:, SIDE] = torch.tensor([2.0, -2.0])
        sides[:, half + SIDE] = -sides[:, SIDE]
        last = model.bert.encoder.layer[-1].attention
        last.self.query.bias[0] = last.self.key.weight[0, SIDE] = STRENGTH
        last.self.value.weight[0, READ] = 1.0
        last.output.dense.weight[CARRIED, 0] = GAIN
        last.output.dense.weight[half + CARRIED, 0] = -GAIN
        model.bert.pooler.dense.weight[0, CARRIED] = 1.0
        model.classifier.weight[:, 0] = 2 * GAIN * torch.linspace(-1, 1, 5)
    return out


def pairs(count: int = 60, seed: int = 0) -> list[Pair]:
    """Pairs of as many queries, graded by whether most characters of the query have the first sign.

    Half of a pair's 16 characters have either sign, so that labels permuted within a pair say
    nothing.
    """
    rng = random.Random(seed)
    kinds = {kind: [c for c in HAN if signs(c) == kind] for kind in product((0, 1), repeat=2)}
    found = []
    for number in range(count):
        with_sign = (0, 5, 1, 6)[number % 4]
        others = [0, 1] * 8
        rng.shuffle(others)
        texts = []
        for size, most in ((6, with_sign), (10, 8 - with_sign)):
            drawn = [rng.choice(kinds[place < most, others.pop()]) for place in range(size)]
            rng.shuffle(drawn)
            texts.append("".join(drawn))
        grade = 2 if with_sign < 3 else 4
        found.append(Pair(texts[0], texts[1], (grade,), str(number), number + 1, None, {}))
    return found


def tasks(fit: list[Pair], check: list[Pair], folder: Path) -> list[Task]:
    """The two signs of every character, at the same positions, as properties."""
    tokenizer = open_checkpoint(folder).pair_tokenizer()
    halves = [_places(half, tokenizer) for half in (fit, check)]
    return [
        Task(*(_examples(property, places, labels[:, sign]) for places, labels in halves))
        for sign, property in ((0, USED), (1, UNUSED))
    ]


def _places(half: list[Pair], tokenizer) -> tuple[Positions, IntArray]:
    texts = tuple((pair.query, pair.title) for pair in half)
    text, tokens, labels = [], [], []
    for number, encoded in enumerate(tokenizer.encode(texts)):
        for side in (QUERY, TITLE):
            for at in characters_of(encoded, *texts[number], side):
                text.append(number)
                tokens.append(at.token)
                labels.append(signs(at.text))
    spans = np.array([[[token, token + 1]] for token in tokens])
    positions = Positions("token", texts, np.array(text), spans)
    return positions, np.array(labels)


def _examples(about: Property, positions: Positions, labels: IntArray) -> Examples:
    # Every place is a kind of its own: a sign is all that a character is, and no control of it.
    return Examples(about, positions, labels, ("no", "yes"), np.arange(len(labels)))
