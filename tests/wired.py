"""A three-layer BERT whose wiring is known: what one lower head marks is read directly, and what
another marks only through a head in between.

The residual stream has named places, most of them pairs of numbers (x, −x), so that its mean is always
0: the token's code, the text it stands in, whether it is a token of content, three marks, the
result, and a ground that is much larger than all else. The ground holds the norm nearly still, and
the normalisations put back the scale they take, so that a mark added or gone changes nothing else by
more than a thousandth. Feed-forward blocks, and all heads that are not named, add nothing.
"""

import random
from pathlib import Path

import numpy as np
import torch

from qt_bert.data.pairs import Pair
from qt_bert.heads import Head
from tests.conftest import edited, make_checkpoint

DIRECT, RELAYED, MIDDLE, READER = Head(0, 1), Head(0, 2), Head(1, 3), Head(2, 0)
SPOILER = Head(2, 2)
LAYERS, HEADS, WIDTH = 3, 4, 32
WORDS = tuple(
    ["北京", "上海", "高铁", "票价", "时刻", "衣服", "油渍", "排骨", "电影", "苹果", "手机", "假期"]
)

CODE = 24
TEXT, CONTENT, FOR_READER, FOR_MIDDLE, COPIED, RESULT, GROUND, DRAFT = range(CODE, CODE + 16, 2)
LARGE = 30.0
SURE = 60.0
"""A score that far above the others takes all of the softmax."""
NOTICED = 1.5
"""What each mark adds to the reader's score of a token."""
SPECIAL = ("[PAD]", "[CLS]", "[SEP]")


def wired_checkpoint(folder: Path, *, spoiler: float = 0, by_block: bool = False) -> Path:
    """Save the model with its tokenizer (characters of `tests.conftest`), five grades; the folder.

    L0H1 (`DIRECT`) and L0H2 (`RELAYED`) look from each character to the same one of the other text,
    and mark those that have one; each has a mark of its own. L1H3 (`MIDDLE`) looks at the same
    character in both texts, and copies the mark of L0H2 to a third. L2H0 (`READER`) turns [CLS] to
    the characters with the mark of L0H1, and to those with the third; it gives the share of
    attention that content has, which makes the grade. With `spoiler` L2H2 (`SPOILER`) adds so much to that
    share; with `by_block` the feed-forward block of layer 2 takes it from `DRAFT`. So L0H1 reaches L2H0's key directly, and L0H2 by
    L1H3 alone. Nothing enters its query, and what enters its value is no mark.
    """
    from transformers import AutoTokenizer

    make_checkpoint(folder, layers=LAYERS, heads=HEADS, hidden=HEADS * WIDTH)
    with edited(folder) as model:
        for parameter in model.parameters():
            parameter.zero_()
        _embed(model, AutoTokenizer.from_pretrained(folder).get_vocab())
        first, second, third = (layer.attention for layer in model.bert.encoder.layer)
        _mark_matches(first, DIRECT.head, FOR_READER)
        _mark_matches(first, RELAYED.head, FOR_MIDDLE)
        _copy_marks(second, MIDDLE.head)
        _read_marks(third, READER.head, DRAFT if by_block else RESULT)
        if by_block:
            _copy_draft(model.bert.encoder.layer[2])
        if spoiler:
            third.self.value.bias[SPOILER.head * WIDTH] = spoiler
            _give(third, SPOILER.head, RESULT)
        _read(model.bert.pooler.dense.weight[0], RESULT, 4.0)
        model.bert.pooler.dense.bias[0] = -2.0
        model.classifier.weight[:, 0] = torch.tensor([-4.0, -2.0, 0.0, 2.0, 4.0])
    return folder


def wired_pairs(count: int, seed: int = 0) -> list[Pair]:
    """Pairs of as many queries of three words each, one or two of them in the title too."""
    rng, pairs = random.Random(seed), []
    for number in range(count):
        words, shared = rng.sample(WORDS, 6), 1 + number % 2
        title = words[3 : 6 - shared] + words[:shared]
        rng.shuffle(title)
        grade = 3 + 2 * (shared - 1)
        texts = " ".join(words[:3]), " ".join(title)
        pairs.append(Pair(*texts, (grade,), str(number), number + 1, str(grade), {}))
    return pairs


def codes(count: int, seed: int = 0) -> np.ndarray:
    """Vectors of 1 and −1 [count, CODE] of sum 0, whose products stay well below that with themselves.

    Of the first three with any other, −4 to 4; of two others, at most 8.
    """
    rng, half = np.random.default_rng(seed), np.repeat([1.0, -1.0], CODE // 2)
    found, n = np.zeros((count, CODE)), 0
    while n < count:
        found[n] = rng.permutation(half)
        products = found[:n] @ found[n]
        far = np.abs(products[: len(SPECIAL)]).max(initial=0) <= 4
        n += bool(far and products.max(initial=0) <= 8)
    return found


def _embed(model: torch.nn.Module, vocabulary: dict[str, int]) -> None:
    """Code, text, content and ground; all vectors have mean 0 and one norm."""
    embeddings, special = model.bert.embeddings, [vocabulary[token] for token in SPECIAL]
    rest = sorted(set(vocabulary.values()) - set(special))
    word = embeddings.word_embeddings.weight
    word[special + rest, :CODE] = torch.tensor(codes(len(vocabulary)), dtype=word.dtype)
    _write(word, CONTENT, 1.0)
    word[special, CONTENT : CONTENT + 2] *= -1
    _write(word, GROUND, LARGE)
    text = embeddings.token_type_embeddings.weight
    _write(text, TEXT, 1.0)
    text[1] *= -1
    norm = (word[0] + text[0]).norm()
    for module in model.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.weight.fill_(norm / module.weight.numel() ** 0.5)


def _write(rows: torch.Tensor, place: int, value: float) -> None:
    """Let rows [n, size] hold (value, −value) at a place."""
    rows[:, place], rows[:, place + 1] = value, -value


def _read(row: torch.Tensor, place: int, strength: float) -> None:
    """Let a row of a weight give `strength` times what stands at a place."""
    row[place], row[place + 1] = strength / 2, -strength / 2


def _parts(attention: torch.nn.Module) -> tuple[torch.nn.Linear, ...]:
    return attention.self.query, attention.self.key, attention.self.value


def _same_token(attention: torch.nn.Module, head: int) -> int:
    """SURE for the same token, at most a third of it for another; the head's next free row."""
    first, root = head * WIDTH, (SURE * WIDTH**0.5 / CODE) ** 0.5
    for part in _parts(attention)[:2]:
        part.weight[first : first + CODE, :CODE].fill_diagonal_(root)
    return first + CODE


def _mark_matches(attention: torch.nn.Module, head: int, mark: int) -> None:
    """To the same token of the other text; without one, to its separator, which gives nothing."""
    query, key, value = _parts(attention)
    row, root = _same_token(attention, head), (SURE / 2 * WIDTH**0.5) ** 0.5
    _read(query.weight[row], TEXT, root)
    _read(key.weight[row], TEXT, -root)
    query.bias[row + 1] = WIDTH**0.5
    _is_special(key, row + 1, SURE * 2 / 3)
    _is_content(value, head * WIDTH)
    _give(attention, head, mark)


def _copy_marks(attention: torch.nn.Module, head: int) -> None:
    """To the same token of both texts, which are marked alike."""
    _same_token(attention, head)
    _read(attention.self.value.weight[head * WIDTH], FOR_MIDDLE, 1.0)
    _give(attention, head, COPIED)


def _read_marks(attention: torch.nn.Module, head: int, result: int) -> None:
    """The same query for every token; keys of marked tokens and of separators."""
    query, key, value = _parts(attention)
    row = head * WIDTH
    query.bias[row] = WIDTH**0.5
    _is_special(key, row, 2.0)
    _read(key.weight[row], FOR_READER, NOTICED)
    _read(key.weight[row], COPIED, NOTICED)
    _is_content(value, row)
    _give(attention, head, result)


def _copy_draft(layer: torch.nn.Module) -> None:
    """One unit copies DRAFT to RESULT; 6 more, where GELU is the identity, is taken off again."""
    up, down = layer.intermediate.dense, layer.output.dense
    _read(up.weight[0], DRAFT, 1.0)
    up.bias[0] = 6.0
    down.weight[RESULT, 0], down.weight[RESULT + 1, 0] = 1.0, -1.0
    down.bias[RESULT], down.bias[RESULT + 1] = -6.0, 6.0


def _is_content(part: torch.nn.Linear, row: int) -> None:
    """1 for a token of content, 0 for another."""
    _read(part.weight[row], CONTENT, 0.5)
    part.bias[row] = 0.5


def _is_special(part: torch.nn.Linear, row: int, strength: float) -> None:
    """`strength` for [CLS] and [SEP], 0 for a token of content."""
    _read(part.weight[row], CONTENT, -strength / 2)
    part.bias[row] = strength / 2


def _give(attention: torch.nn.Module, head: int, place: int) -> None:
    """Write the head's first number to a place of the residual stream."""
    column = attention.output.dense.weight[:, head * WIDTH]
    column[place], column[place + 1] = 1.0, -1.0
