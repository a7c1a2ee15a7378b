"""What layers hold: texts and labels by hand, gains by hand, the whole probe on every kind of model."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from qt_bert.data.pairs import Pair
from qt_bert.data.segmenters import jieba_tagger, segmenter
from qt_bert.data.splits import half_of
from qt_bert.data.tokenise import PairTokenizer
from qt_bert.figures import Bars, Curve, HeatMap
from qt_bert.models.opening import open_checkpoint
from qt_bert.probes import layers
from qt_bert.probes.base import Context, probe_named, run_probe
from qt_bert.probes.layers_reading import GRADE, LENGTH, ORDER, Task
from qt_bert.probes.streams import few_in_quick
from qt_bert.stats.estimate import over_queries
from tests.conftest import CHARACTERS, edited, write_pairs
from tests.probes.made_context import context_of
from tests.probes.planted_relations import conllu

PAIRS = (
    ("苹果手机多少钱", "苹果多少钱一斤"),
    ("北京到上海", "上海到北京高铁票价"),
    ("红烧排骨", "家常做法大全"),
)
WORDS = (
    *("北京", "上海", "高铁", "票价", "查询", "衣服"),
    *("油渍", "红烧", "排骨", "小哥", "最近", "做法"),
)
REST = [("干", "VERB", 0, "root"), ("红烧", "ADJ", 4, "amod"), ("排骨", "NOUN", 2, "obj")]
"""The words of a sentence behind its subject."""


def by_name(found: Sequence[Task | None]) -> dict[str, Task]:
    return {task.about.name: task for task in found if task is not None}


# Texts.


def pairs_of(queries: int, seed: int, grades: Sequence[int] = (1, 2, 3, 4, 5)) -> list[Pair]:
    """Two titles a query; a title of a high grade shares words with the query."""
    rng = np.random.default_rng(seed)
    pairs = []
    for number in range(queries):
        query = "".join(rng.choice(WORDS, 3, replace=False)) + rng.choice(list(CHARACTERS))
        for turn in range(2):
            grade = int(grades[(number + turn) % len(grades)])
            kept = query[: 2 * (grade // 2)]
            title = kept + "".join(rng.choice(WORDS, 1 + (number + turn) % 4))
            pairs.append(Pair(query, title, (grade,), f"{number}-{turn}", 1, str(grade), {}))
    return pairs


def layers_of(folder: Path, tmp_path: Path, **changes: Any) -> Context:
    halves = changes.pop("discovery", pairs_of(30, 1)), changes.pop("validation", pairs_of(20, 2))
    return context_of("layers", folder, tmp_path, halves, **changes)


def test_recombined_pairs_are_new_and_every_other_title_is_shuffled():
    pairs = [(one.query, one.title) for one in pairs_of(20, 1)]
    found = layers.recombine(pairs, 60, seed=0)
    titles = {title for _, title in pairs}
    assert len(set(found.texts)) == 60 and not set(found.texts) & set(pairs)
    for (query, title), shuffled in zip(found.texts, found.labels, strict=True):
        assert any(query == one for one, _ in pairs)
        assert (title in titles) != (shuffled == "shuffled")
        assert any(sorted(title) == sorted(one) for one in titles)
    assert found.labels == ["kept", "shuffled"] * 30


def test_few_texts_give_what_combinations_they_have():
    found = layers.recombine([("甲", "乙丙"), ("丁", "戊己"), ("庚", "辛")], 50, seed=0)
    # The title of one character has no other order: 3 queries × 2 titles, less the 2 that are pairs.
    assert 1 <= len(found.texts) <= 4
    assert layers.recombine([("甲", "乙")], 5, seed=0).texts == ()


def test_nothing_to_fit_on_holds_a_text_of_validation(checkpoint_of, tmp_path):
    validation = pairs_of(20, 2)
    leaking = [Pair("新的查询", validation[0].title, (3,), "leak", 1, "3", {}), *pairs_of(30, 1)]
    further = [(f"查询{n}", f"上海高铁{n}") for n in range(9)] + [("别的查询", validation[1].title)]
    further.append((f" {validation[0].query} ", "衣服查询"))  # the same query in another spelling
    texts = write_pairs(tmp_path / "texts.tsv", [(*pair, 3) for pair in further])
    context = layers_of(
        checkpoint_of("bert"), tmp_path, discovery=leaking, validation=validation, texts=texts
    )
    known = {text for pair in validation for text in (pair.query, pair.title)}
    fit, check = layers.natural(context)
    mine, theirs = layers.recombined(context)
    for one in (fit, mine):
        assert not known & {text.strip() for pair in one.texts for text in pair}
    assert {text for pair in check.texts for text in pair} <= known
    assert {query for query, _ in theirs.texts} <= known
    assert any("查询" in query for query, _ in fit.texts)  # further texts are there
    assert fit.labels[-1] is None and None not in check.labels


def test_coarse_labels_are_read_as_their_mean_grade(checkpoint_of, tmp_path):
    coarse = [
        Pair(one.query, one.title, (1, 2) if one.grades == (1,) else (3, 4), one.id, 1, "", {})
        for one in pairs_of(30, 1)
    ]
    fit, _ = layers.natural(layers_of(checkpoint_of("bert"), tmp_path, discovery=coarse))
    assert set(fit.labels) == {1.5, 3.5}


# Labels.


@pytest.fixture(scope="module")
def tokenizer(checkpoint_of) -> PairTokenizer:
    return open_checkpoint(checkpoint_of("bert", positions=64)).pair_tokenizer(None)


def named(task: Task, half: str = "check") -> list[str]:
    one = getattr(task, half)
    return [one.classes[label] for label in one.labels]


@pytest.fixture(scope="module")
def tokens(tokenizer) -> dict[str, Task]:
    half = layers.Half(PAIRS, [2.0, 5.0, 1.0])
    return by_name(layers.token_tasks(half, half, tokenizer, segmenter("jieba"), jieba_tagger()))


def test_characters_are_read_at_their_tokens(tokens):
    task = tokens["position"]
    positions = task.check.positions
    # [CLS] 7 characters [SEP] 7 characters [SEP], then the next pair.
    assert task.check.labels[:14].tolist() == [*range(1, 8), *range(9, 16)]
    assert positions.spans[:14, 0, 0].tolist() == [*range(1, 8), *range(9, 16)]
    assert positions.text[:14].tolist() == [0] * 14 and positions.text[14] == 1
    assert all(one.check.positions is positions for one in tokens.values())


def test_word_ends_and_matches_are_those_of_the_words(tokens):
    # 苹果 手机 多少 钱 / 苹果 多少 钱 一斤
    ends = (
        ["goes on", "ends"] * 3 + ["ends"] + ["goes on", "ends"] * 2 + ["ends", "goes on", "ends"]
    )
    assert named(tokens["boundary"])[:14] == ends
    matched = ["matched"] * 2 + ["alone"] * 2 + ["matched"] * 3 + ["matched"] * 5 + ["alone"] * 2
    assert named(tokens["matched"])[:14] == matched


def test_parts_of_speech_and_names_are_those_of_jieba(tokens):
    # The second pair: 北京 到 上海 / 上海 到 北京 高铁 票价
    assert named(tokens["entity"])[14:19] == ["place"] * 2 + ["no name"] + ["place"] * 2
    pos = named(tokens["pos"])[14:19]
    assert pos[0] == pos[1] == pos[3] == pos[4] == "n" != pos[2]


def test_only_graded_pairs_are_examples_of_the_grade(tokenizer):
    half = layers.Half(PAIRS * 3, [2.0, None, 1.0] * 3)
    task = layers.grade_task(half, half, tokenizer)
    assert task is not None
    assert task.fit.labels.tolist() == [2.0, 1.0] * 3
    assert task.fit.positions.text.tolist() == [0, 2, 3, 5, 6, 8]
    assert task.fit.positions.texts is half.texts


def test_length_counts_tokens_and_order_labels_shuffled_titles(tokenizer):
    pairs = [(f"{query}{n}", f"{title}{n}") for n in range(4) for query, title in PAIRS]
    fit, check = layers.recombine(pairs, 12, 0), layers.recombine(pairs, 12, 1)
    found = by_name(layers.recombined_tasks(fit, check, tokenizer))
    sizes = [len(one) for one in tokenizer.encode(fit.texts)]
    assert found["length"].fit.labels.tolist() == sizes
    assert named(found["order"], "fit") == ["kept", "shuffled"] * 6
    assert found["length"].fit.positions is found["order"].fit.positions
    query, title = found["length"].fit.positions.spans[0]
    assert query.tolist() == [1, 1 + len(fit.texts[0][0])]
    assert title[1] - title[0] == len(fit.texts[0][1])


@pytest.fixture
def treebank(tmp_path) -> Path:
    """Sentences with different subjects, six in either half."""
    halves: dict[str, list[str]] = {"discovery": [], "validation": []}
    for left in "北京到上海高铁票价时刻表查询怎么去除":
        for right in "衣服上的油渍沾了洗掉":
            text = f"{left}{right}干红烧排骨"
            if len(halves[half_of(text)]) < 6:
                halves[half_of(text)].append(left + right)
    path = tmp_path / "bank.conllu"
    every = [(first, "NOUN", 2, "nsubj") for half in halves.values() for first in half]
    path.write_text(conllu([[first, *REST] for first in every]), encoding="utf-8")
    return path


def test_arcs_of_a_treebank_are_read_where_their_words_stand(treebank, tokenizer):
    arcs = layers.treebank_task([treebank], tokenizer, 100, 0)
    assert arcs is not None
    # The root has no arc; the dependent word comes first.
    assert len(arcs.check) == 6 * 3
    assert named(arcs)[:3] == ["nsubj", "amod", "obj"]
    assert arcs.check.positions.spans[0].tolist() == [[1, 3], [3, 4]]
    assert arcs.check.positions.spans[1].tolist() == [[4, 6], [6, 8]]
    assert not set(arcs.fit.positions.texts) & set(arcs.check.positions.texts)
    few = layers.treebank_task([treebank], tokenizer, 3, 0)
    assert few is not None
    assert len(few.fit.positions.texts) == len(few.check.positions.texts) == 3


def test_words_that_share_a_token_are_in_no_arc(treebank, tokenizer, monkeypatch):
    encode = tokenizer.encode

    def over_an_edge(pairs, **options):
        """The second word's token spells the end of the first, too: amod alone remains."""
        found = encode(pairs, **options)
        for one in found:
            one.spans[3] = (1, 3)
        return found

    monkeypatch.setattr(tokenizer, "encode", over_an_edge)
    assert layers.treebank_task([treebank], tokenizer, 100, 0) is None


def test_arcs_of_words_that_were_cut_off_are_no_examples(treebank, checkpoint_of):
    short = open_checkpoint(checkpoint_of("bert")).pair_tokenizer(9)
    # Six tokens are left for the sentence: 排骨 loses its second character, nsubj alone remains.
    assert layers.treebank_task([treebank], short, 100, 0) is None


# Gains and centres.


def test_gains_add_up_to_the_best_score_above_the_floor():
    scores = np.array([[0.4, 0.6, 0.5, 0.9, 0.8], [0.4, 0.3, 0.2, 0.1, 0.0]])  # floor, r0 to r3
    assert layers.gains(scores, scores) == pytest.approx(
        np.array([[0.2, 0.0, 0.3, 0.0], [0.0] * 4])
    )


def test_gains_are_measured_on_other_scores_than_those_that_choose():
    choosing = np.array([0.4, 0.6, 0.5, 0.7, 0.9])
    predictions = np.array([0.4, 0.7, 0.9, 0.6, 0.8])
    # r0, r2 and r3 are the best so far: .4 → .7 → .6 → .8; r1, the best in testing, is not chosen.
    assert layers.gains(choosing, predictions) == pytest.approx([0.3, 0.0, -0.1, 0.2])


def test_groups_of_properties_are_compared_over_the_queries_of_all():
    low = over_queries([0.0, 1.0, 2.0, 1.0], list("abcd"))
    high, other = over_queries([3.0, 4.0, 5.0, 4.0], list("abcd")), over_queries([2.0, 4.0], "ef")
    found = layers.higher({"length": low, "order": None, "grade": high}, [LENGTH, ORDER], [GRADE])
    assert found is not None and found.value == pytest.approx(3.0)
    assert found.values == pytest.approx([3.0] * 4)  # the same queries stay paired
    apart = layers.higher({"length": low, "grade": other}, [LENGTH], [GRADE])
    assert apart is not None and apart.value == pytest.approx(2.0) and apart.n_queries == 6
    # The squared errors of the two means add up: no query counts for both.
    error = np.var(apart.values, ddof=1) / 6
    assert error == pytest.approx(np.var(low.values, ddof=1) / 4 + np.var([2, 4], ddof=1) / 2)
    assert layers.higher({"length": low}, [LENGTH], [GRADE]) is None


# When the grade is decided.


@pytest.mark.parametrize(
    ("graded", "moved", "right"),
    [
        # 1.2 → 4.4 is turned and right, 4 → 2 wrong; 2.4 → 3.5 ends in the middle.
        (True, [3.2, 2, 0, 0], [True, False]),
        # As ranks among the four, labels too: .25 → 1, 1 → .25 and, for the rest, no turn.
        (False, [0.75, 0.75, 0, 0], [True, False]),
    ],
)
def test_turns_by_hand(graded, moved, right):
    read, last = np.array([[1.2, 4.0, 2.4, 2.3], [4.4, 2.0, 3.5, 2.4]])
    found, nearer = layers.turns(read, last, np.array([5.0, 4.0, 3.0, 2.0]), graded=graded)
    assert found == pytest.approx(np.array(moved))
    assert nearer[:2].tolist() == right


def test_a_planted_turn_of_the_last_layer(fresh_checkpoint, tmp_path):
    folder = fresh_checkpoint()
    with edited(folder) as model:
        for layer, sign in zip(model.bert.encoder.layer, (1, -1), strict=True):
            layer.output.LayerNorm.weight.zero_()
            layer.output.LayerNorm.bias.fill_(sign)  # every pair has this state
        model.bert.pooler.dense.weight.copy_(torch.eye(16))
        model.classifier.weight.copy_(torch.tensor([[5.0], [0], [0], [0], [-5]]).expand(5, 16))
    result = layers.decided(layers_of(folder, tmp_path))
    values = {name: one.value for name, one in result.measurements.items() if one is not None}
    assert values == pytest.approx({"decided_layer": 2, "turned": 1, "turned_rightly": 0.4})
    (table,) = result.tables
    assert [one.value for one in table.rows[0].values[1:]] == pytest.approx([1, 5], abs=1e-4)
    assert len(table.rows) == 5
    distance, ranks = result.figures[0].series
    assert [point.y for point in distance.points[1:]] == pytest.approx([4, 0], abs=1e-4)
    assert ranks.points == ()  # no layer tells the pairs apart


def test_a_score_of_levels_stays_within_the_same_share_of_their_scale(checkpoint_of, tmp_path):
    context = layers_of(checkpoint_of(labels=3, layers=3), tmp_path)
    result, pairs = layers.decided(context), few_in_quick(context, context.validation)
    texts = [(pair.query, pair.title) for pair in pairs]
    scores = layers.scores_by_layer(context.model, context.model.tokenizer.encode(texts))
    far = abs(scores - scores[:, -1:]) > 0.25
    last = [max([0, *(np.flatnonzero(row) + 1)]) for row in far]
    decided = result.measurements["decided_layer"]
    assert decided.value == over_queries(last, [pair.query for pair in pairs]).value > 0
    assert result.facts["within"] == 0.25 < np.median(abs(scores).max(1))


# The probe.


def test_the_base_and_the_model_are_measured(checkpoint_of, tmp_path):
    base = checkpoint_of("bert", seed=5)
    result = run_probe(probe_named("layers"), layers_of(checkpoint_of("bert"), tmp_path, base=base))
    found = {one.id: one for one in result.measurements}
    assert {"position_falls", "length_untrained", "position_falls_model"} <= set(found)
    assert {"decided_layer", "turned", "turned_rightly"} <= set(found)
    assert found["position_falls"].ci_low is not None and found["position_falls"].n_queries == 20
    assert found["position_falls"].source.article == "what_bert_and_transformer_learn"
    assert result.claims == () and result.heads == () and result.sets == {}
    centres, before, after, by_layer = result.figures
    assert isinstance(by_layer, Curve) and [len(one.points) for one in by_layer.series] == [3, 2]
    assert isinstance(centres, Bars) and len(centres.series) == 2
    assert isinstance(before, HeatMap) and isinstance(after, HeatMap)
    assert before.columns == ("r0", "r1", "r2") and before.annotations is not None
    assert "dependency" not in result.settings["examples"]


def test_few_pairs_are_enough(checkpoint_of, tmp_path):
    few = {"discovery": pairs_of(5, 1), "validation": pairs_of(5, 2)}
    alone = run_probe(probe_named("layers"), layers_of(checkpoint_of("bert"), tmp_path, **few))
    measured = {one.id for one in alone.measurements}
    assert "position_falls_model" in measured and len(alone.figures) == 3
    assert "position_falls" not in measured  # there is no base
