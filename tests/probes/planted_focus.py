"""A small BERT in which L0H2 marks the characters that both texts share, and L2H1 reads the marks.

Tokens and texts are unit vectors; the normalisations leave them as they are (they have one mean
and one norm, which scale and shift put back). All that is not set is zero, so other heads attend evenly
and add nothing.
"""

import random
from pathlib import Path

import torch
from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

from qt_bert.data.pairs import Pair
from tests.conftest import pair_of

_WORDS = """
    苹果 北京 音乐 天气 医院 手机 老师 学校 火车 电影 游戏 银行 护照 米饭 牛奶 葡萄 咖啡 蜂蜜 足球 城市
"""
WORDS = _WORDS.split()
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
TOKENS = (*SPECIAL, *sorted(set("".join(WORDS))))
LAYERS, HEADS, WIDTH = 4, 4, 48
TEXT_A, MARK, READ = len(TOKENS), len(TOKENS) + 2, len(TOKENS) + 4
MATCHER, READER = "L0H2", "L2H1"
MATCHES, READS = 2, 1
SURE = 20 * WIDTH**0.5
"""A score that far above the others takes all of the softmax."""


def plant(out: Path, heads: int = HEADS) -> Path:
    """Save the model of so many heads a layer with its tokenizer. Returns `out`.

    L3H0 adds a little of what any token is, so that queries differ a little.
    """
    write_tokenizer(out)
    config = BertConfig(
        vocab_size=len(TOKENS),
        hidden_size=heads * WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=heads,
        intermediate_size=heads * WIDTH,
        max_position_embeddings=64,
        num_labels=5,
    )
    model = BertForSequenceClassification(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        _norms(model)
        embeddings = model.bert.embeddings
        embeddings.word_embeddings.weight[:, : len(TOKENS)].fill_diagonal_(1)
        embeddings.token_type_embeddings.weight[:, TEXT_A : TEXT_A + 2].fill_diagonal_(1)
        _mark_matches(model.bert.encoder.layer[0].attention)
        _read_marks(model.bert.encoder.layer[2].attention)
        model.bert.pooler.dense.weight[0, READ], model.bert.pooler.dense.weight[0, READ + 1] = 5, -5
        model.classifier.weight[4, 0] = 8
        model.classifier.bias[0] = 4
        last, spare = model.bert.encoder.layer[3].attention, READ + 2
        drawn = torch.randn(len(TOKENS), generator=torch.Generator().manual_seed(0))
        last.self.value.weight[0, : len(drawn)] = drawn / 2
        last.output.dense.weight[spare, 0] = 1
        last.output.dense.weight[spare + 1, 0] = -1
        model.bert.pooler.dense.weight[1, spare] = 1
        model.classifier.weight[4, 1] = 1
    model.save_pretrained(out)
    return out


def write_tokenizer(out: Path) -> None:
    """Save a tokenizer of the words' characters."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "vocab.txt").write_text("\n".join(TOKENS) + "\n", encoding="utf-8")
    vocabulary = {token: number for number, token in enumerate(TOKENS)}
    BertTokenizerFast(vocab=vocabulary).save_pretrained(out)
    (out / "qt_bert.json").write_text('{"schema": 1, "allow_unknown": true}', encoding="utf-8")


def pairs(count: int, seed: int) -> list[Pair]:
    """Pairs of as many queries: of three words each; grade 5 where they share some, else 1."""
    rng, pairs = random.Random(seed), []
    for number in range(count):
        words = rng.sample(WORDS, 6)
        shared = 0 if number % 3 == 0 else rng.randint(1, 2)
        title = words[3 : 6 - shared] + words[:shared]
        rng.shuffle(title)
        query, grade = " ".join(words[:3]), 5 if shared else 1
        pairs.append(pair_of(query, " ".join(title), grade, number + 1))
    return pairs


def _norms(model: BertForSequenceClassification) -> None:
    """Undo the normalisation of a vector with two ones and zeros else."""
    mean = 2 / model.config.hidden_size
    for module in model.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.weight.fill_((mean - mean**2) ** 0.5)
            module.bias.fill_(mean)


def _mark_matches(attention: torch.nn.Module) -> None:
    """To the same token of the other text; without one, to its separator, which gives nothing."""
    query, key, value = (
        getattr(attention.self, name).weight[MATCHES * WIDTH : (MATCHES + 1) * WIDTH]
        for name in ("query", "key", "value")
    )
    root, texts = SURE**0.5, len(TOKENS)
    query[:, : len(TOKENS)].fill_diagonal_(root)
    key[:, : len(TOKENS)].fill_diagonal_(root)
    query[texts, TEXT_A] = query[texts + 1, TEXT_A + 1] = root
    key[texts, TEXT_A + 1] = key[texts + 1, TEXT_A] = root
    key[texts + 2, SPECIAL.index("[SEP]")] = root / 2
    attention.self.query.bias[MATCHES * WIDTH + texts + 2] = root
    value[0, len(SPECIAL) : len(TOKENS)] = 1
    attention.output.dense.weight[MARK, MATCHES * WIDTH] = 1
    attention.output.dense.weight[MARK + 1, MATCHES * WIDTH] = -1


def _read_marks(attention: torch.nn.Module) -> None:
    first = READS * WIDTH
    attention.self.query.bias[first] = SURE**0.5
    for projection, strength in ((attention.self.key, SURE**0.5), (attention.self.value, 1.0)):
        projection.weight[first, MARK], projection.weight[first, MARK + 1] = strength, -strength
    attention.output.dense.weight[READ, first] = 1
    attention.output.dense.weight[READ + 1, first] = -1
