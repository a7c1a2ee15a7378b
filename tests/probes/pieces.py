"""Tokenizers made by hand: tokens that are not characters, pairs put together in another way."""

import json
import shutil
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

SPECIAL = ("[PAD]", "[CLS]", "[SEP]", "[UNK]")


def byte_level(*pieces: tuple[str, int]) -> PreTrainedTokenizerFast:
    """Byte-level BPE: bytes, and of each (text, n) the token of its first n bytes; `[CLS] q [SEP] t [SEP]`."""
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokens, merges = [*SPECIAL, *sorted(level.alphabet())], []
    for text, n in pieces:
        ((symbols, _),) = level.pre_tokenize_str(text)
        parts = list(accumulate(symbols[:n]))
        merges += zip(parts, symbols[1:n], strict=False)
        tokens += [one for one in parts if one not in tokens]
    backend = Tokenizer(models.BPE({one: id for id, one in enumerate(tokens)}, merges))
    backend.pre_tokenizer = level
    return _whole(backend)


def metaspace(*pieces: str) -> PreTrainedTokenizerFast:
    """SentencePiece of the mark, of single characters, and of `pieces`, the likelier; specials as above."""
    single = sorted({one for text in pieces for one in text} - {"▁"})
    scored = [(one, 0.0) for one in SPECIAL] + [("▁", -9.0)]
    scored += [(one, -9.0) for one in single] + [(one, -1.0) for one in pieces if len(one) > 1]
    backend = Tokenizer(models.Unigram(scored, unk_id=3))
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    return _whole(backend)


def with_template(model: Path, template: str, out: Path) -> Path:
    """A copy of a BERT whose pairs are put together so: `[CLS] $A $B` has no [SEP]."""
    shutil.copytree(model, out)
    tokenizer = Tokenizer.from_file(str(out / "tokenizer.json"))
    special = [(name, tokenizer.token_to_id(name)) for name in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A", pair=template, special_tokens=special
    )
    tokenizer.save(str(out / "tokenizer.json"))
    # transformers puts a BertTokenizer's pairs together as ever, whatever its file says.
    config = out / "tokenizer_config.json"
    named = json.loads(config.read_text(encoding="utf-8")) | {
        "tokenizer_class": "PreTrainedTokenizerFast"
    }
    config.write_text(json.dumps(named), encoding="utf-8")
    return out


def _whole(backend: Tokenizer) -> PreTrainedTokenizerFast:
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B [SEP]",
        special_tokens=[("[CLS]", 1), ("[SEP]", 2)],
    )
    names: Sequence[str] = ("pad_token", "cls_token", "sep_token", "unk_token")
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, **dict(zip(names, SPECIAL, strict=True))
    )
