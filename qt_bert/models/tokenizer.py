"""A folder's tokenizer, opened as transformers does and compared with the folder's files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import transformers
from tokenizers import Tokenizer
from transformers import AutoTokenizer

from qt_bert.errors import ArgumentError, CheckpointError
from qt_bert.models.card import CARD, allows_unknown
from qt_bert.models.loading import quietly
from qt_bert.progress import note_once

PAIRS = (
    ("北京到上海高铁票价", "北京上海高铁票多少钱 2024 时刻表查询"),
    ("苹果", "苹果手机 iPhone 15 多少钱"),
    ("怎么去除衣服上的油渍", "红烧排骨的家常做法"),
    ("狗", "猫"),
)
"""Pairs of the check on opening: four of different lengths, in common characters."""

UNKNOWN = 0.1
"""The share of unknown tokens on `PAIRS` above which a vocabulary does not suit Chinese texts."""

TYPES = "token_type_ids"


def open_tokenizer(folder: Path, *, allow_unknown: bool = False) -> Any:
    """The folder's fast tokenizer, as transformers builds it.

    Notes a difference from tokenizer.json or vocab.txt. Raises CheckpointError where it cannot be built,
    is not fast, or more than a tenth of the tokens of `PAIRS` are unknown, unless that is allowed here or
    in the folder's `qt_bert.json`.
    """
    try:
        with quietly():
            opened = AutoTokenizer.from_pretrained(folder, use_fast=True, trust_remote_code=False)
            backend = getattr(opened, "backend_tokenizer", None)
        if backend is not None:
            backend.no_truncation()  # what a tokenizer.json may keep of its last use
            backend.no_padding()
            encoded = [backend.encode(*pair) for pair in PAIRS]
            with quietly():
                opened(*PAIRS[-1])  # a setting of the wrong type stops it here
            _compare_with_files(folder, backend, [encoding.ids for encoding in encoded])
    except Exception as error:  # tokenizers raises bare Exception for a broken file
        raise CheckpointError(
            f"{folder}: the tokenizer cannot be opened ({first_line(error)})"
        ) from error
    if backend is None:
        raise CheckpointError(
            f"{folder}: {type(opened).__name__} is not a fast tokenizer, so the places of its tokens are "
            "unknown; save the model's tokenizer as tokenizer.json"
        )
    unknown = [
        encoding.ids[i] == opened.unk_token_id
        for encoding in encoded
        for i, side in enumerate(encoding.sequence_ids)
        if side is not None
    ]
    share = sum(unknown) / max(1, len(unknown))
    if (not unknown or share > UNKNOWN) and not (allow_unknown or allows_unknown(folder)):
        raise CheckpointError(
            f"{folder}: the tokenizer does not know {share:.0%} of the tokens of four plain Chinese pairs "
            f"({len(opened):,} tokens in its vocabulary); copy the model's own vocabulary, or, if this is "
            f"intended, --allow-unknown (`allow_unknown` in {CARD})"
            if unknown
            else f"{folder}: the tokenizer makes no token of four plain Chinese pairs; its vocabulary "
            "is missing: copy the model's own tokenizer.json"
        )
    return opened


def _compare_with_files(folder: Path, backend: Any, ids: list[list[int]]) -> None:
    """Note where transformers' tokenizer differs from the folder's files."""
    stored, words = folder / "tokenizer.json", folder / "vocab.txt"
    if stored.is_file():
        stored_tokenizer = Tokenizer.from_file(str(stored))
        stored_tokenizer.no_truncation()
        stored_tokenizer.no_padding()
        for pair, theirs in zip(PAIRS, ids, strict=True):
            encoded = stored_tokenizer.encode(*pair)
            if encoded.ids != theirs:
                note_once(
                    f"{folder}: transformers {transformers.__version__} builds another tokenizer than "
                    f"tokenizer.json: {pair[0]} {pair[1]} begins with the tokens {theirs[:6]}, by the file "
                    f"with {encoded.ids[:6]}. transformers' is used; for that of the file correct "
                    "tokenizer_config.json (tokenizer_class, add_prefix_space and the like)"
                )
                break
    if words.is_file():
        lines = words.read_text(encoding="utf-8", errors="replace").split("\n")
        for word, number in {word: number for number, word in enumerate(lines)}.items():
            if (known := backend.token_to_id(word)) is not None and known != number:
                note_once(
                    f"{folder}: the tokenizer numbers {word!r} {known}, vocab.txt {number}: one of the "
                    "two belongs to another model. The tokenizer is used"
                )
                break


def choose_types(
    tokenizer: Any, config: Any, takes: bool, folder: Path, requested: bool | None = None
) -> None:
    """Set whether `tokenizer` gives token types to a model of `config` that `takes` them.

    transformers sends them where `model_input_names` has them; `requested` overrides that.
    A note is printed where types are omitted that the model may have been tuned with, or that it has no
    embeddings for. Raises ArgumentError for requested types that tokenizer or model lack.
    """
    names = [name for name in tokenizer.model_input_names if name != TYPES]
    sent = len(names) < len(tokenizer.model_input_names)
    most = max(max(tokenizer.backend_tokenizer.encode(*pair).type_ids) for pair in PAIRS)
    room = getattr(config, "type_vocab_size", most + 1)
    takes = takes and room > 0
    sends = sent if requested is None else requested
    if sends and (not takes or most >= room):
        lacks = f"has {room} (type_vocab_size)" if takes else "takes none (token_type_ids)"
        line = f"{folder}: the tokenizer gives {most + 1} types of tokens, the model {lacks}"
        if requested:
            raise ArgumentError(f"{line}; leave --token-types yes out (`token_types` in {CARD})")
        if most and takes:
            note_once(f"{line}. Type 0 is used for all")
        sends = False
    elif requested is None and not sent and most and takes and room > most:
        note_once(
            f"{folder}: transformers {transformers.__version__} leaves token_type_ids out "
            f"({type(tokenizer).__name__}, model_input_names), though the tokenizer gives the title type "
            f"{most}. Type 0 is used for all, as by transformers; a model that was tuned with types, "
            "as by transformers 4, needs --token-types yes (--token-types no: leave this line out), or "
            f"`token_types` in {CARD}"
        )
    if sends != sent:
        tokenizer.model_input_names = [*names, TYPES] if sends else names
        tokenizer.init_kwargs["model_input_names"] = tokenizer.model_input_names  # saved with it


def padding_of(tokenizer: Any, config: Any) -> int:
    """The id of padding: the model's, the tokenizer's, or a token that ends no pair."""
    if config.pad_token_id is not None:
        return int(config.pad_token_id)
    last = tokenizer("a", "b")["input_ids"][-1]
    known = (tokenizer.pad_token_id, tokenizer.eos_token_id, *tokenizer.all_special_ids, 0, 1)
    rows = config.vocab_size
    return next(
        int(token) for token in known if token is not None and token != last and token < rows
    )


def first_line(error: Exception) -> str:
    """An error's type and the first line of its message."""
    return ": ".join([type(error).__name__, *str(error).strip().splitlines()[:1]])
