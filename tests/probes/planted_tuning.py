"""Small BERTs in which every head but one planted head is uniform."""

import math
from pathlib import Path

import torch
from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification

from qt_bert.data.pairs import Pair
from qt_bert.data.segmenters import segmenter
from qt_bert.probes.tuning_maps import Comparison, compare
from tests.conftest import edited
from tests.probes.planted_kinds import opened

SHAPE = {"layers": 2, "heads": 4, "hidden": 128}
"""What `checkpoint_of` makes for `plant`."""

WORDS = ("北京", "上海", "高铁", "票价", "手机", "苹果", "电影", "假期", "排骨", "衣服")


def plant(folder: Path, out: Path, strength: float) -> Path:
    """The model of `folder` with L0H1 attending to the same token of the other text.

    Tokens have codes of ±1 in the first dimensions, texts a sign; every other head's query is 0,
    so that it attends evenly. With `strength` 0 so does L0H1. Returns `out`, which is complete.
    """
    with edited(folder, out) as model:
        width = model.config.hidden_size // model.config.num_attention_heads
        _encode(model.bert.embeddings, width - 1)
        for layer in model.bert.encoder.layer:
            layer.attention.self.query.weight.zero_()
            layer.attention.self.query.bias.zero_()
        _match(model.bert.encoder.layer[0].attention.self, width, strength)
    return out


def tuned_again(folder: Path, out: Path) -> Path:
    """The model of `folder` with another classifier; the same heads do the same. Returns `out`."""
    with edited(folder, out) as model:
        for weight in model.classifier.parameters():
            weight.add_(0.1)
    return out


def untrained(folder: Path, out: Path, seed: int) -> Path:
    """A BERT with the tokens of `folder` as it is before pretraining: 4 layers of 4 heads."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        num_hidden_layers=4,
        num_attention_heads=4,
        intermediate_size=128,
        max_position_embeddings=64,
        num_labels=5,
    )
    torch.manual_seed(seed)
    BertForSequenceClassification(config).save_pretrained(out)
    tokenizer.save_pretrained(out)
    (out / "qt_bert.json").write_text('{"schema": 1, "allow_unknown": true}', encoding="utf-8")
    return out


def _encode(embeddings: torch.nn.Module, bits: int) -> None:
    """A code of `bits` for each token and one for its text, each with its negative beside it."""
    generator = torch.Generator().manual_seed(0)
    words = embeddings.word_embeddings.weight
    code = torch.randint(2, (len(words), bits), generator=generator).float() * 2 - 1
    words.zero_()
    words[:, :bits], words[:, bits : 2 * bits] = code, -code
    embeddings.position_embeddings.weight.zero_()
    sign = embeddings.token_type_embeddings.weight
    sign.zero_()
    sign[:, 2 * bits] = torch.tensor([1.0, -1.0])
    sign[:, 2 * bits + 1] = torch.tensor([-1.0, 1.0])


def _match(attention: torch.nn.Module, width: int, strength: float) -> None:
    """Scores of head 1: high for equal codes, higher for the other text."""
    rows, bits = range(width, 2 * width), width - 1
    key = attention.key.weight
    key[list(rows)] = 0
    for row, dimension in zip(rows, [*range(bits), 2 * bits], strict=True):
        own_text = dimension == 2 * bits
        weight = math.sqrt(8 * strength) if own_text else math.sqrt(2 * strength)
        attention.query.weight[row, dimension] = weight
        key[row, dimension] = -weight if own_text else weight


def pairs() -> list[Pair]:
    """Thirty pairs of as many queries; every query shares one or two words with its title."""
    made = []
    for i in range(30):
        first, second, other = WORDS[i % 10], WORDS[(i + 1 + i // 10) % 10], WORDS[(i + 6) % 10]
        query = f"{first}{second}"
        title = f"{other}{first}" if i % 2 else f"{second}{other}{first}"
        made.append(Pair(query, title, (4,), str(i), i + 1, "4", {}))
    return made


def compared(base: Path, model: Path) -> Comparison:
    """Two folders' attention on the made pairs."""
    return compare(opened(base).encoder, opened(model), pairs(), segmenter("jieba"))
