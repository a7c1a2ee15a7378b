"""A vocabulary of words, counted in the text that a model is about to be pretrained on."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from qt_bert.encoder import open_tokenizer
from qt_bert.errors import ArgumentError
from qt_bert.files import atomic_folder, atomic_write, sha256_file
from qt_bert.pairs.words import WORDS, cut, word_cutter
from qt_bert.progress import progress

_SPECIAL = ("pad", "unk", "cls", "sep", "mask")
_LONGEST = 16
"""Characters of the longest word that is kept: what is longer is an address or a run of signs."""


def word_tokenizer_folder(
    init: Path, texts: Iterable[str], size: int, folder: Path, text_key: str
) -> Path:
    """The folder of a tokenizer of the `size` commonest words of `texts`, made once in `folder`.

    Rarer words are their characters: those that the tokenizer in `init` knows, whose special tokens
    and lower-casing it shares. `text_key` stands for the texts: with another one, another `size` or
    `init` the folder is made anew. Raises ArgumentError for a size below 1.
    """
    if size < 1:
        raise ArgumentError(f"--words {size}: give the number of words that become tokens")
    parts = (text_key, sha256_file(init / "tokenizer.json"), str(size))
    key = hashlib.sha256("\n".join(parts).encode()).hexdigest()
    marker = folder.with_name(f"{folder.name}.key")
    if not folder.exists() or not marker.exists() or marker.read_text("utf-8") != key:
        marker.unlink(missing_ok=True)
        made = word_tokenizer(open_tokenizer(init), texts, size)
        with atomic_folder(folder) as temporary:
            made.save_pretrained(temporary)
        with atomic_write(marker) as temporary:
            temporary.write_text(key, "utf-8")
    return folder


def word_tokenizer(like: Any, texts: Iterable[str], size: int) -> Any:
    """A fast tokenizer whose tokens are the special ones and the characters of `like`, and the
    `size` commonest words of `texts` (ties by code point). It is asked with words (`pairs.words`).
    """
    from tokenizers import AddedToken, Tokenizer, models, normalizers, processors
    from transformers import PreTrainedTokenizerFast

    names = {f"{name}_token": getattr(like, f"{name}_token") for name in _SPECIAL}
    normalizer = normalizers.BertNormalizer(handle_chinese_chars=False)
    characters = {token for token in like.get_vocab() if len(token) == 1}
    words = common_words(texts, size, normalizer)
    tokens = [*names.values(), *sorted(characters - set(names.values()))]
    tokens += [word for word in words if word not in characters]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    # Without merges a word of the vocabulary is one token, and any other falls into characters.
    model = models.BPE(
        vocab=vocabulary, merges=[], unk_token=names["unk_token"], ignore_merges=True
    )
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizer
    cls, sep = names["cls_token"], names["sep_token"]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{cls} $A {sep}",
        pair=f"{cls} $A {sep} $B:1 {sep}:1",
        special_tokens=[(cls, vocabulary[cls]), (sep, vocabulary[sep])],
    )
    tokenizer.add_special_tokens(
        [AddedToken(token, special=True, normalized=False) for token in names.values()]
    )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names, **{WORDS: True})


def common_words(texts: Iterable[str], size: int, normalizer: Any) -> list[str]:
    """The `size` commonest words, commonest first, as the normalizer leaves them."""
    segmenter, counts = word_cutter(), Counter[str]()
    with progress(None, "counting words", "texts") as shown:
        for text in texts:
            counts.update(cut(text, segmenter).words)
            shown.advance(1)
    folded = Counter[str]()
    for word, count in counts.items():
        if plain := normalizer.normalize_str(word).strip():
            folded[plain] += count
    known = [word for word in folded if len(word) <= _LONGEST]
    return sorted(known, key=lambda word: (-folded[word], word))[:size]
