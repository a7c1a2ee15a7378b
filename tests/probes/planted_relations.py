"""A small BERT in which one head attends to a character's partner, and a treebank that links partners."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from qt_bert.heads import Head
from tests.conftest import CHARACTERS, edited
from tests.probes.planted_matching import MATCHING, WIDTH, plant_matching

PLANTED: Head = MATCHING
_SEGMENT = 30
"""Where `planted_matching` puts the segment, in embeddings and in the head."""

_HAN = sorted({one for one in CHARACTERS if not one.isascii()})
HALF = len(_HAN) // 2
FIRST, SECOND = _HAN[:HALF], _HAN[HALF : 2 * HALF]
"""FIRST[n] and SECOND[n] are partners."""

LENGTH = 8
"""Words of a sentence, each of one character."""


def plant_links(folder: Path) -> Path:
    """Save the model: in PLANTED a character attends to itself and to its partner in its own text."""
    plant_matching(folder)
    vocabulary = (folder / "vocab.txt").read_text(encoding="utf-8").splitlines()
    with edited(folder) as model:
        words = model.bert.embeddings.word_embeddings.weight
        for first, second in zip(FIRST, SECOND, strict=True):
            words[vocabulary.index(second)] = words[vocabulary.index(first)]
        query = model.bert.encoder.layer[PLANTED.layer].attention.self.query.weight
        query[PLANTED.head * WIDTH + _SEGMENT, _SEGMENT] *= -1
    return folder


def conllu(sentences: Iterable[Sequence[tuple[str, str, int, str]]]) -> str:
    """Sentences of (form, part of speech, head, relation) as CoNLL-U."""
    blocks = (
        "".join(
            f"{number}\t{form}\t_\t{tag}\t_\t_\t{head}\t{relation}\t_\t_\n"
            for number, (form, tag, head, relation) in enumerate(words, 1)
        )
        for words in sentences
    )
    return "\n".join(blocks) + "\n"


def write_treebank(path: Path, sentences: int, *, seed: int = 0) -> Path:
    """Sentences in which partners are linked as `obj`, two strangers as `nmod`, and all else is near."""
    rng = np.random.default_rng(seed)
    path.write_text(conllu(_sentence(rng) for _ in range(sentences)), encoding="utf-8")
    return path


def _sentence(rng: np.random.Generator) -> list[tuple[str, str, int, str]]:
    """Word 0 is the root and has its partner and a stranger, two to five words on, as dependents."""
    places = rng.permutation(HALF)[:LENGTH]
    forms = [FIRST[place] for place in places]
    partner, stranger = (int(place) for place in 2 + rng.permutation(LENGTH - 2)[:2])
    forms[partner] = SECOND[places[0]]
    heads = [0, *range(1, LENGTH)]
    labels = ["root", *["dep"] * (LENGTH - 1)]
    for place, label in ((partner, "obj"), (stranger, "nmod")):
        heads[place], labels[place] = 1, label
    return list(zip(forms, ["NOUN"] * LENGTH, heads, labels, strict=True))
