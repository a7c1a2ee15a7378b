"""Tiny models and pair files for the probes, made in code from fixed seeds.

`planted` has a head that matches characters and one that looks at an offset; `wired` has two heads
that mark matches and one that reads them; `random` has five grades, `one_logit` is an XLM-RoBERTa
with a single logit: of these two no weight is meant.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

from tests.conftest import make_checkpoint, write_pairs
from tests.probes.planted_matching import pairs_of, plant_matching
from tests.wired import WORDS, wired_checkpoint, wired_pairs

ENDINGS = ("", "怎么", "最近", "多少钱", "怎么洗掉", "能吃不", "2", "3")
QUERIES = 24
Row = tuple[str, str, int]


def made(work: Path) -> Iterator[tuple[str, tuple[object, ...]]]:
    """Each model's name and the options that `report` gets, its files under `work`."""
    wired = [(pair.query, pair.title, pair.grades[0]) for pair in wired_pairs(3 * QUERIES)]
    yield "planted", _options(work / "planted", plant_matching, pairs_of(3 * QUERIES))
    yield "wired", _options(work / "wired", wired_checkpoint, wired)

    def random_model(folder: Path) -> Path:
        return make_checkpoint(folder, layers=4, heads=4, hidden=32, seed=1)

    def one_logit(folder: Path) -> Path:
        return make_checkpoint(folder, "xlm-roberta", labels=1, seed=1)

    options = _options(work / "random", random_model, worded())
    base = make_checkpoint(work / "random" / "base", layers=4, heads=4, hidden=32)
    treebank = _treebank(work / "random" / "treebank.conllu")
    yield "random", (*options, "--base", base, "--treebank", treebank)
    yield "one_logit", _options(work / "one_logit", one_logit, worded())


def worded(seed: int = 0) -> list[Row]:
    """Three titles a query of three words: with all, some and none of them, grades 1 to 5."""
    rng, rows = random.Random(seed), []
    for number in range(QUERIES):
        words = rng.sample(WORDS, 6)
        query = "".join(words[:3]) + ENDINGS[number % len(ENDINGS)]
        for shared in (3, number % 2 + 1, 0):
            title = words[:shared] + words[3 : 6 - shared // 2]
            rng.shuffle(title)
            ending = rng.choice(ENDINGS)
            rows.append((query, "".join(title) + ending, 1 + shared + (number + shared) % 2))
    return rows


def _options(folder: Path, model: object, rows: list[Row]) -> tuple[object, ...]:
    folder.mkdir(parents=True)
    pairs = write_pairs(folder / "pairs.tsv", rows)
    return "--model", model(folder / "model"), "--pairs", pairs  # type: ignore[operator]


def _treebank(path: Path) -> Path:
    """Twelve sentences of four words: a subject, a verb, an object with its attribute."""
    rng, rows = random.Random(0), []
    for number in range(12):
        subject, attribute, thing = rng.sample(WORDS, 3)
        rows.append(f"# sent_id = {number}\n# text = {subject}开通{attribute}{thing}")
        words = [(subject, "NOUN", 2, "nsubj"), ("开通", "VERB", 0, "root")]
        words += [(attribute, "NOUN", 4, "nmod"), (thing, "NOUN", 2, "obj")]
        for n, (form, part, head, relation) in enumerate(words, 1):
            rows.append(f"{n}\t{form}\t{form}\t{part}\t_\t_\t{head}\t{relation}\t_\tSpaceAfter=No")
        rows.append("")
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path
