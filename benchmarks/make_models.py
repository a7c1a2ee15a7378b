"""Random models of real size: a BERT-base folder and an XLM-R type folder with one logit.

    python benchmarks/make_models.py OUT

writes OUT/bert-base (12 × 768, vocabulary 21,128, five labels), OUT/xlm-r (12 × 768, one logit,
sentence-piece pairs) and OUT/two-layer (2 × 64, for measurements of memory). The weights are random;
shapes, time and memory are those of real models.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import (
    AutoConfig,
    AutoModelForSequenceClassification,
    BertTokenizerFast,
    PreTrainedTokenizerFast,
)

from qt_bert.models.tokenizer import open_tokenizer
from qt_bert.shipped import PRETRAINED, shipped

BERT_BASE_VOCABULARY = 21_128


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out", type=Path)
    out = parser.parse_args().out
    characters = shipped_characters()
    bert_base(out / "bert-base")
    wordpiece(out / "two-layer", characters, len(characters) + 5)
    save(out / "two-layer", "bert", labels=5, hidden=64, layers=2, heads=2)
    sentencepiece(out / "xlm-r", [c for c in characters if not c.startswith("##")])
    save(out / "xlm-r", "xlm-roberta", labels=1, hidden=768, layers=12, heads=12)


def bert_base(folder: Path) -> None:
    """A five-grade classifier of BERT-base's size."""
    wordpiece(folder, shipped_characters(), BERT_BASE_VOCABULARY)
    save(folder, "bert", labels=5, hidden=768, layers=12, heads=12)


def shipped_characters() -> list[str]:
    """The vocabulary of the shipped tokenizer without its special tokens."""
    vocabulary = open_tokenizer(shipped(PRETRAINED)).get_vocab()
    return sorted(token for token in vocabulary if not token.startswith("["))


def wordpiece(folder: Path, characters: list[str], size: int) -> None:
    """A WordPiece vocabulary of `characters`, filled up to `size` entries with unused ones."""
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *characters]
    tokens += [f"[unused{i}]" for i in range(size - len(tokens))]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(tokens) + "\n", encoding="utf-8")
    BertTokenizerFast(vocab={t: i for i, t in enumerate(tokens)}).save_pretrained(folder)


def sentencepiece(folder: Path, characters: list[str]) -> None:
    """An XLM-R type Unigram vocabulary over single characters, pairs as `<s> q </s></s> t </s>`."""
    pieces = [(t, 0.0) for t in ("<s>", "<pad>", "</s>", "<unk>")]
    pieces += [("▁", -2.0), *((c, -8.0) for c in characters), ("<mask>", 0.0)]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=3))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> </s> $B </s>",
        special_tokens=[("<s>", 0), ("</s>", 2)],
    )
    named = {
        "bos_token": "<s>",
        "cls_token": "<s>",
        "eos_token": "</s>",
        "sep_token": "</s>",
        "pad_token": "<pad>",
        "unk_token": "<unk>",
        "mask_token": "<mask>",
    }
    folder.mkdir(parents=True, exist_ok=True)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **named).save_pretrained(folder)


def byte_level(folder: Path, texts: list[str], size: int) -> None:
    """A byte-level BPE of `size` tokens, trained on `texts`, without special tokens in a pair, as Qwen has it."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    folder.mkdir(parents=True, exist_ok=True)
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<|endoftext|>", eos_token="<|im_end|>"
    ).save_pretrained(folder)


def save(folder: Path, family: str, *, labels: int, hidden: int, layers: int, heads: int) -> None:
    tokenizer = open_tokenizer(folder)
    xlm_r = family == "xlm-roberta"
    config = AutoConfig.for_model(
        family,
        vocab_size=len(tokenizer),
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=4 * hidden,
        max_position_embeddings=514 if xlm_r else 512,
        type_vocab_size=1 if xlm_r else 2,
        pad_token_id=tokenizer.pad_token_id,
        num_labels=labels,
    )
    torch.manual_seed(0)
    model = AutoModelForSequenceClassification.from_config(config)
    model.save_pretrained(folder)
    print(f"{folder}: {sum(p.numel() for p in model.parameters()):,} parameters")


if __name__ == "__main__":
    main()
