"""A BERT of words instead of characters, and a deep BERT from a shallow one.

The package knows no words: texts and pairs are cut by jieba beforehand and joined with spaces, and the
tokenizer made here splits at spaces. Blanks of the text itself are no words.
"""

from __future__ import annotations

import copy
import re
import shutil
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForPreTraining

from qt_bert.data.segmenters import segmenter
from qt_bert.errors import ArgumentError
from qt_bert.files import atomic_folder, atomic_write
from qt_bert.models.card import ModelLabels, ModelSettings
from qt_bert.models.checkpoint import save_checkpoint
from qt_bert.models.loading import open_for_pretraining
from qt_bert.models.tokenizer import open_tokenizer
from qt_bert.progress import progress
from qt_bert.training.corpus import text_lines
from qt_bert.training.recipes import PairSource

_SPECIAL = ("pad", "unk", "cls", "sep", "mask")
_LONGEST = 16
"""Characters of the longest word that is kept: what is longer is an address or a run of signs."""
_LAYER = re.compile(r"(bert\.encoder\.layer\.)(\d+)(\..+)")


def cut(text: str) -> list[str]:
    """The words of a text, by jieba's own dictionary."""
    return [word for word in segmenter("jieba").words(text) if not word.isspace()]


def spaced(text: str) -> str:
    """A text as the word models read it."""
    return " ".join(cut(text))


def spaced_shard(shard: Path, folder: Path) -> Path:
    """The shard's lines cut into words, in a text file of `folder`."""
    out = folder / f"{shard.name.partition('.')[0]}.txt"
    if not out.exists():
        with atomic_write(out) as temporary, open(temporary, "w", encoding="utf-8") as file:
            file.writelines(f"{spaced(line)}\n" for line in text_lines(shard))
    return out


def spaced_source(source: PairSource, folder: Path, number: int) -> PairSource:
    """The pairs of a source cut into words, in a file of `folder`; labels, their meaning and weight
    stay, and what the source leaves out is left out."""
    out = folder / f"{number}-{source.file.name.partition('.')[0]}.tsv"
    if not out.exists():
        read = source.read()
        labelled = any(pair.label is not None for pair in read)
        with atomic_write(out) as temporary, open(temporary, "w", encoding="utf-8") as file:
            print("query", "title", *(["grade"] if labelled else []), sep="\t", file=file)
            for pair in read:
                label = [pair.label or ""] if labelled else []
                print(spaced(pair.query), spaced(pair.title), *label, sep="\t", file=file)
    return replace(source, file=out, columns="", exclude=(), no_header=False)


def word_start(
    base: Path, shards: list[Path], sources: list[PairSource], size: int, folder: Path
) -> Path:
    """A copy of `base` whose tokenizer has the `size` commonest words of the texts, made once.

    Its weights are of another vocabulary: a model that starts at random takes the tokenizer alone.
    """
    if not folder.exists():
        lines = (line for shard in shards for line in text_lines(shard))
        pairs = (pair for source in sources for pair in source.read())
        texts = chain(lines, (text for pair in pairs for text in (pair.query, pair.title)))
        made = word_tokenizer(open_tokenizer(base), texts, size)
        with atomic_folder(folder) as temporary:
            for path in (base / "config.json", *base.glob("*.safetensors")):
                shutil.copy(path, temporary)
            made.save_pretrained(temporary)
    return folder


def word_tokenizer(like: Any, texts: Iterable[str], size: int) -> Any:
    """A fast tokenizer whose tokens are the special ones and the characters of `like`, and the
    `size` commonest words of `texts` (ties by code point). It reads `spaced` texts; a rarer word is
    its characters. Raises ArgumentError for a size below 1.
    """
    from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    if size < 1:
        raise ArgumentError(f"{size} words: give the number of words that become tokens")
    names = {f"{name}_token": getattr(like, f"{name}_token") for name in _SPECIAL}
    normalizer = normalizers.BertNormalizer(handle_chinese_chars=False)
    characters = {token for token in like.get_vocab() if len(token) == 1}
    words = _common_words(texts, size, normalizer)
    tokens = [*names.values(), *sorted(characters - set(names.values()))]
    tokens += [word for word in words if word not in characters]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    # Without merges a word of the vocabulary is one token, and any other falls into characters.
    model = models.BPE(
        vocab=vocabulary, merges=[], unk_token=names["unk_token"], ignore_merges=True
    )
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    cls, sep = names["cls_token"], names["sep_token"]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{cls} $A {sep}",
        pair=f"{cls} $A {sep} $B:1 {sep}:1",
        special_tokens=[(cls, vocabulary[cls]), (sep, vocabulary[sep])],
    )
    tokenizer.add_special_tokens(
        [AddedToken(token, special=True, normalized=False) for token in names.values()]
    )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)


def _common_words(texts: Iterable[str], size: int, normalizer: Any) -> list[str]:
    """The `size` commonest words, commonest first, as the normalizer leaves them."""
    counts = Counter[str]()
    with progress(None, "counting words", "texts") as shown:
        for text in texts:
            counts.update(cut(text))
            shown.advance(1)
    folded = Counter[str]()
    for word, count in counts.items():
        if plain := normalizer.normalize_str(word).strip():
            folded[plain] += count
    known = [word for word in folded if len(word) <= _LONGEST]
    return sorted(known, key=lambda word: (-folded[word], word))[:size]


def stacked(shallow: Path, layers: int, out: Path) -> Path:
    """The pretraining model in `shallow` with `layers` layers: layer n is a copy of layer n mod its own.

    Gong et al. 2019, "Efficient training of BERT by progressively stacking": a deep model that starts
    at random first learns how common characters are, and for long nothing else; a few layers get over
    that within minutes, and the deeper model goes on from there. Raises ArgumentError where `layers`
    is no multiple of the model's.
    """
    model = open_for_pretraining(shallow)
    held = int(model.config.num_hidden_layers)
    if layers < held or layers % held:
        raise ArgumentError(f"{held} layers cannot be stacked to {layers}")
    if out.exists():
        return out
    config = copy.deepcopy(model.config)
    config.num_hidden_layers = layers
    deeper = AutoModelForPreTraining.from_config(config, attn_implementation="eager")
    state = model.state_dict()

    def source(name: str) -> str:
        found = _LAYER.fullmatch(name)
        return name if found is None else f"{found[1]}{int(found[2]) % held}{found[3]}"

    deeper.load_state_dict({name: state[source(name)] for name in deeper.state_dict()})
    card = ModelSettings(ModelLabels(0, None), int(config.max_position_embeddings))
    return save_checkpoint(out, deeper, open_tokenizer(shallow), settings=card, dtype=torch.float32)
