"""A BERT with one head that knows word ends, and pairs and decisions for it.

The head attends from a character that ends words, by a made table, to [SEP], else onward.
"""

from pathlib import Path

import numpy as np
import torch
from transformers import AutoTokenizer

from qt_bert.probes.boundary_decisions import Decisions, PairText
from tests import conftest

HEADS, WIDTH, PLACES = 4, 48, 40
END, SEPARATOR = PLACES, PLACES + 1
PLANTED = "L1H2"
HAN = "北京到上海高铁票价时刻表查询怎么去除衣服的油渍沾了洗掉红烧排骨家常做法小哥最近在干嘛我伊朗长大假期电影苹果手机"
ENDS = set(HAN[::2])


def words_of(text: str) -> list[str]:
    """The words of a text by the table: each ends with a character of `ENDS`, or with the text."""
    cuts = [0, *(at for at in range(1, len(text)) if text[at - 1] in ENDS), len(text)]
    return [text[a:b] for a, b in zip(cuts, cuts[1:], strict=False)]


def spans_of(text: str) -> list[tuple[int, int]]:
    ends = np.cumsum([0, *map(len, words_of(text))]).tolist()
    return list(zip(ends, ends[1:], strict=False))


def plant_word_ends(folder: Path, ends: set[str], *, labels: int = 5) -> Path:
    """Save a classifier of 2 layers × 4 heads; all heads but L1H2 attend to everything alike.

    Embeddings hold the place one-hot, whether the character ends words (±1), and whether it is
    [SEP]. L1H2 compares places with a shift of one, and the second with the third.
    """
    shape = {"labels": labels, "heads": HEADS, "hidden": HEADS * WIDTH, "positions": PLACES}
    conftest.make_checkpoint(folder, **shape, initializer_range=0.02)
    with conftest.edited(folder) as model:
        _embed(model.bert.embeddings, AutoTokenizer.from_pretrained(folder), ends)
        for layer in model.bert.encoder.layer:
            layer.attention.self.query.weight.zero_()
            layer.attention.self.key.weight.zero_()
        _attend(model.bert.encoder.layer[1].attention.self)
    return folder


def _embed(embeddings, tokenizer, ends: set[str]) -> None:
    words, places = embeddings.word_embeddings.weight, embeddings.position_embeddings.weight
    for table in (words, places, embeddings.token_type_embeddings.weight):
        table.zero_()
    places[:, :PLACES] = 4 * torch.eye(PLACES)
    for token, number in tokenizer.get_vocab().items():
        words[number, END] = 4.0 if token in ends else -4.0
    words[tokenizer.sep_token_id, END] = 0.0
    words[tokenizer.sep_token_id, SEPARATOR] = 4.0


def _attend(attention) -> None:
    first = WIDTH * int(PLANTED[-1])
    for place in range(1, PLACES):
        attention.query.weight[first + place, place - 1] = 1.3
        attention.key.weight[first + place, place] = 1.3
    attention.query.weight[first, END] = 2.0
    attention.key.weight[first, SEPARATOR] = 2.0


def write_pairs(path: Path, *, queries: int, titles: int, characters: str = HAN) -> Path:
    """So many titles of each query, their grades going round, of these `characters`."""
    rng, rows = np.random.default_rng(3), []
    for number in range(queries):
        query = "".join(rng.choice(list(characters), 6))
        for place in range(titles):
            title = "".join(rng.choice(list(characters), 10))
            rows.append((query, title, (number + place) % 5 + 1))
    return conftest.write_pairs(path, rows)


def made(sizes: list[int], queries: list[int] | None = None) -> Decisions:
    """Decisions of texts of these sizes, each one run and (by default) a query of its own."""
    text = np.repeat(np.arange(len(sizes)), sizes)
    place = np.concatenate([np.arange(0), *(np.arange(size) for size in sizes)])
    query = text if queries is None else np.array(queries)[text]
    zero = np.zeros_like(text)
    texts = tuple(
        PairText("", ("", ""), 0, str(number)) for number in dict.fromkeys(query.tolist())
    )
    return Decisions(texts, [], zero, zero, zero, place, text, query, coverage=1.0)
