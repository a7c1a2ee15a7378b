"""Labels of characters, texts and arcs, on texts small enough to label by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from qt_bert.data.segmenters import jieba_tagger, segmenter
from qt_bert.data.splits import half_of
from qt_bert.data.tokenise import PairTokenizer
from qt_bert.models.checkpoint import open_checkpoint
from qt_bert.probes.layers.examples import OTHER, Described, Places, Task, task_of
from qt_bert.probes.layers.property import BOUNDARY, POSITION
from qt_bert.probes.layers.samples import Natural, recombine
from qt_bert.probes.layers.tasks import by_name
from qt_bert.probes.layers.text_tasks import first_token, grade_tasks, recombined_tasks
from qt_bert.probes.layers.token_tasks import Words, token_tasks
from qt_bert.probes.layers.treebank_tasks import treebank_tasks

Build = Callable[..., Path]
PAIRS = (
    ("苹果手机多少钱", "苹果多少钱一斤"),
    ("北京到上海", "上海到北京高铁票价"),
    ("红烧排骨", "家常做法大全"),
)


@pytest.fixture(scope="module")
def tokenizer(checkpoint_of: Build) -> PairTokenizer:
    return open_checkpoint(checkpoint_of("bert", positions=64)).pair_tokenizer(None)


@pytest.fixture(scope="module")
def words() -> Words:
    return Words(segmenter("jieba"), jieba_tagger())


def natural(grades: Sequence[float | None] = (2.0, 5.0, 1.0)) -> Natural:
    return Natural(PAIRS, tuple(grades), np.arange(len(PAIRS)))


def named(task: Task, half: str = "check") -> list[str]:
    one = getattr(task, half)
    return [one.classes[label] for label in one.labels]


@pytest.fixture(scope="module")
def tokens(tokenizer: PairTokenizer, words: Words) -> dict[str, Task]:
    return by_name(token_tasks(natural(), natural(), tokenizer, words))


def test_characters_are_read_at_their_tokens(tokens: dict[str, Task]) -> None:
    task = tokens["position"]
    places = task.check.places
    # [CLS] 7 characters [SEP] 7 characters [SEP], then the next pair.
    assert task.check.labels[:14].tolist() == [*range(1, 8), *range(9, 16)]
    assert places.spans[:14, 0, 0].tolist() == [*range(1, 8), *range(9, 16)]
    assert places.text[:14].tolist() == [0] * 14 and places.text[14] == 1
    assert all(one.check.places is places for one in tokens.values())


def test_word_ends_and_matches_are_those_of_the_words(tokens: dict[str, Task]) -> None:
    # 苹果 手机 多少 钱 / 苹果 多少 钱 一斤
    ends = (
        ["goes on", "ends"] * 3 + ["ends"] + ["goes on", "ends"] * 2 + ["ends", "goes on", "ends"]
    )
    assert named(tokens["boundary"])[:14] == ends
    matched = ["matched"] * 2 + ["alone"] * 2 + ["matched"] * 3 + ["matched"] * 5 + ["alone"] * 2
    assert named(tokens["matched"])[:14] == matched


def test_parts_of_speech_and_names_are_those_of_jieba(tokens: dict[str, Task]) -> None:
    # The second pair: 北京 到 上海 / 上海 到 北京 高铁 票价
    assert named(tokens["entity"])[14:19] == ["place"] * 2 + ["no name"] + ["place"] * 2
    pos = named(tokens["pos"])[14:19]
    assert pos[0] == pos[1] == pos[3] == pos[4] == "n" != pos[2]


def test_kinds_are_characters_alike_in_both_halves(tokens: dict[str, Task]) -> None:
    task = tokens["boundary"]
    assert task.fit.kinds is not None and task.check.kinds is not None
    assert (task.fit.kinds == task.check.kinds).all()
    assert task.check.kinds[0] == task.check.kinds[7]  # 苹 in query and title
    assert task.check.kinds[0] != task.check.kinds[1]


def test_only_graded_pairs_are_examples_of_the_grade(tokenizer: PairTokenizer) -> None:
    half = Natural(PAIRS * 3, (2.0, None, 1.0) * 3, np.arange(9))
    (task,) = grade_tasks(half, half, tokenizer)
    assert task.fit.labels.tolist() == [2.0, 1.0] * 3
    assert task.fit.places.text.tolist() == [0, 2, 3, 5, 6, 8]
    assert task.fit.places.texts is half.texts


def test_length_counts_tokens_and_order_says_what_was_shuffled(tokenizer: PairTokenizer) -> None:
    pairs = [(f"{query}{n}", f"{title}{n}") for n in range(4) for query, title in PAIRS]
    fit, check = recombine(pairs, 12, 0), recombine(pairs, 12, 1)
    found = by_name(recombined_tasks(fit, check, tokenizer))
    sizes = [len(one) for one in tokenizer.encode(fit.texts)]
    assert found["length"].fit.labels.tolist() == sizes
    assert named(found["order"], "fit") == ["kept", "shuffled"] * 6
    assert found["length"].fit.places is found["order"].fit.places
    query, title = found["length"].fit.places.spans[0]
    assert query.tolist() == [1, 1 + len(fit.texts[0][0])]
    assert title[1] - title[0] == len(fit.texts[0][1])


def test_the_first_token_is_a_property_of_its_own(tokenizer: PairTokenizer) -> None:
    (task,) = grade_tasks(
        *[Natural(PAIRS * 2, (1.0, 2.0, 3.0) * 2, np.arange(6)) for _ in "ab"], tokenizer
    )
    first = first_token(task)
    assert first.about.name == "grade_cls"
    assert first.fit.places.spans.tolist() == [[[0, 1], [0, 0]]] * 6
    assert first.fit.labels is task.fit.labels


def described(labels: Sequence[float | str]) -> Described:
    count = len(labels)
    return Described(
        Places(
            "token", (("a", "b"),), np.zeros(count, int), np.zeros((count, 1, 2), int), np.zeros(1)
        ),
        labels,
    )


def test_rare_classes_and_those_of_one_half_alone_are_one() -> None:
    task = task_of(BOUNDARY, described(["a"] * 6 + ["b"] * 4 + ["c"]), described([*"abcd", *"ab"]))
    assert task is not None and task.classes == ("a", "b", OTHER)
    assert task.check.labels.tolist() == [0, 1, 2, 2, 0, 1]


def test_labels_that_say_nothing_are_no_task() -> None:
    assert task_of(BOUNDARY, described(["a"] * 9), described(["a", "b"] * 5)) is None
    assert task_of(POSITION, described([1.0, 2.0] * 5), described([2.0] * 9)) is None
    assert task_of(POSITION, described([1.0, 2.0]), described([1.0, 2.0] * 9)) is None


def conllu(sentences: Sequence[Sequence[tuple[str, str, int, str]]]) -> str:
    blocks = []
    for words in sentences:
        rows = [
            f"{n}\t{form}\t_\t{upos}\t_\t_\t{head}\t{relation}\t_\t_"
            for n, (form, upos, head, relation) in enumerate(words, 1)
        ]
        blocks.append("\n".join(rows) + "\n")
    return "\n".join(blocks) + "\n"


SENTENCE = [
    ("小哥", "NOUN", 2, "nsubj"),
    ("干", "VERB", 0, "root"),
    ("红烧", "ADJ", 4, "amod"),
    ("排骨", "NOUN", 2, "obj"),
]


@pytest.fixture
def treebank(tmp_path: Path) -> Path:
    """The sentence with another first word each, six in either half."""
    halves: dict[str, list[str]] = {"discovery": [], "validation": []}
    for left in "北京到上海高铁票价时刻表查询怎么去除":
        for right in "衣服上的油渍沾了洗掉":
            text = f"{left}{right}干红烧排骨"
            if len(halves[half_of(text)]) < 6:
                halves[half_of(text)].append(left + right)
    path = tmp_path / "bank.conllu"
    every = [(first, *SENTENCE[0][1:]) for half in halves.values() for first in half]
    path.write_text(conllu([[first, *SENTENCE[1:]] for first in every]), encoding="utf-8")
    return path


def test_words_of_a_treebank_are_read_where_they_stand(
    treebank: Path, tokenizer: PairTokenizer
) -> None:
    found = by_name(treebank_tasks([treebank], tokenizer, 100, 0))
    upos, arcs = found["upos"], found["dependency"]
    assert len(upos.fit) == len(upos.check) == 6 * 7
    assert named(upos)[:7] == ["NOUN"] * 2 + ["VERB"] + ["ADJ"] * 2 + ["NOUN"] * 2
    # The root has no arc; the dependent word comes first.
    assert len(arcs.check) == 6 * 3
    assert named(arcs)[:3] == ["nsubj", "amod", "obj"]
    assert arcs.check.places.spans[0].tolist() == [[1, 3], [3, 4]]
    assert arcs.check.places.spans[1].tolist() == [[4, 6], [6, 8]]
    assert not set(upos.fit.places.texts) & set(upos.check.places.texts)


def test_words_that_were_cut_off_are_no_examples(treebank: Path, checkpoint_of: Build) -> None:
    short = open_checkpoint(checkpoint_of("bert")).pair_tokenizer(9)
    found = by_name(treebank_tasks([treebank], short, 100, 0))
    # Six tokens are left for the sentence: 排骨 loses its second character.
    assert "dependency" not in found or named(found["dependency"])[:2] == ["nsubj", "nsubj"]
    assert len(found["upos"].check) == 6 * 6


def test_a_limit_takes_as_many_sentences_of_either_half(
    treebank: Path, tokenizer: PairTokenizer
) -> None:
    found = by_name(treebank_tasks([treebank], tokenizer, 3, 0))
    assert len(found["upos"].fit.places.texts) == len(found["upos"].check.places.texts) == 3
