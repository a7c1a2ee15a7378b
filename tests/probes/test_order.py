"""Word order: numbers by hand, a planted head, random models, the whole probe on every kind of model."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qt_bert.encoder import ModelLabels, open_checkpoint
from qt_bert.encoder.heads import Head, Shape
from qt_bert.pairs import GRADES, Pair, ReaderOptions, segmenter
from qt_bert.pairs.grades import GradeSet
from qt_bert.pairs.tokenise import QUERY, SPECIAL, TITLE, EncodedPair
from qt_bert.probes.context import ProbeContext
from qt_bert.probes.order import PROBE
from qt_bert.probes.probe import run_probe
from qt_bert.probes.split import PairFiles, Split
from qt_bert.probes.word_order import study as study_module
from qt_bert.probes.word_order.disturbed import ORIGINAL, disturbed
from qt_bert.probes.word_order.grades import Ends, ends
from qt_bert.probes.word_order.maps import Aligned, align, identity_index, offset_sums
from qt_bert.probes.word_order.masks import Draws, masks
from qt_bert.probes.word_order.scores import order_scores
from qt_bert.probes.word_order.sensitivity import Sensitivity, Texts
from qt_bert.probes.word_order.texts import move_characters
from qt_bert.probes.word_order.training import trained_on_shuffled
from qt_bert.progress import silent
from qt_bert.results import ProbeResult
from qt_bert.scoring.bulk import Scorer
from tests.probes import planted_order
from tests.probes.planted_shift import untrained

Build = Callable[..., Path]
FIVE = ModelLabels(5, tuple((grade,) for grade in GRADES))


def pair(query: str, title: str, grades: GradeSet = (4,), tags: str = "") -> Pair:
    return Pair(query, title, grades, "x", 1, None, {"tags": tags})


def shift(length: int, offset: int) -> np.ndarray:
    """A map whose rows look `offset` away; rows at the edge look nowhere."""
    return np.eye(length, k=offset)[None]


def test_an_even_map_has_lift_1_and_a_fixed_offset_all_of_it() -> None:
    even = offset_sums(np.full((1, 6, 6), 1 / 6), [[1, 2, 3, 4]])[0]
    assert even[:-1, 0] == pytest.approx(even[:-1, 1])
    assert even[-1] == pytest.approx([4 * 3 / 6, 4])  # four rows, three others, 1/6 each
    back = offset_sums(shift(6, -1), [[1, 2, 3, 4]])[0]
    # Offset −1: three rows have a character before, weight 1 each; others' mean is 1/3 each.
    assert back[2] == pytest.approx([3, 1])
    assert back[3] == pytest.approx([0, 2 / 3])  # offset +1: rows 1, 2, 3, of which 1 sees no other
    assert back[0] == pytest.approx([0, 1 / 3])


def test_offsets_count_tokens_and_two_characters_say_nothing() -> None:
    sums = offset_sums(shift(8, -1), [[1, 2, 4, 5], [6, 7]])[0]
    assert sums[2] == pytest.approx([2, 2 / 3])  # 4 does not follow 2
    assert sums[-1, 1] == 4


def test_the_identity_index_parts_characters_from_places() -> None:
    rng = np.random.default_rng(0)
    before = rng.random((1, 7, 7))
    order = np.array([3, 0, 4, 1, 2])
    places = np.arange(1, 6)
    tokens = Aligned(places, places, places[order])
    follows = before.copy()
    follows[:, 1:6, 1:6] = before[:, places[order]][:, :, places[order]]
    off = ~np.eye(5, dtype=bool)
    r = np.corrcoef(follows[0, 1:6, 1:6][off], before[0, 1:6, 1:6][off])[0, 1]
    assert identity_index(before, follows, tokens) == pytest.approx([1 - r])
    assert identity_index(before, before, tokens) == pytest.approx([r - 1])
    even = np.full((1, 7, 7), 1 / 7)
    assert np.isnan(identity_index(even, even, tokens)).all()
    few = Aligned(places[:3], places[:3], places[:3])
    assert np.isnan(identity_index(before, before, few)).all()


def test_only_tokens_of_one_character_on_both_sides_are_compared() -> None:
    sides = [SPECIAL, QUERY, SPECIAL, TITLE, TITLE, TITLE, SPECIAL]
    one = EncodedPair([0] * 7, [0] * 7, sides, [(0, 0)] * 7, False, False)
    # Before: 猫 · ab · 狗 as tokens 3, 4, 5; after: 狗 · 猫 · … with `ab` torn apart.
    before, after = {3: 0, 5: 3}, {3: 0, 4: 1, 5: 2}
    tokens = align(one, one, before, after, np.array([3, 0, 1, 2]))
    assert [one.tolist() for one in tokens] == [[3, 4], [3, 4], [5, 3]]


def test_moved_characters_say_where_they_came_from() -> None:
    rng = np.random.default_rng(1)
    for text in ("京东小哥", "aab", "狗猫狗"):
        moved = move_characters(text, rng)
        assert moved is not None and moved.text != text
        assert "".join(text[at] for at in moved.came_from) == moved.text
    assert move_characters("哈哈哈", rng) is None


@pytest.mark.parametrize(
    ("sets", "labels", "expected"),
    [
        ([(1,), (3,), (4,), (5,)], FIVE, Ends(((4,), (5,)), ((1,),))),
        ([(1, 2), (3, 4), (5,)], FIVE, Ends(((5,),), ((1, 2),))),
        ([(4,), (5,)], FIVE, Ends(((4,), (5,)), ())),
        ([(1,), (2,), (3,)], ModelLabels(3, None), Ends(((3,),), ((1,),))),
        ([(1,), (5,)], ModelLabels(1, None), Ends(((5,),), ((1,),))),
    ],
)
def test_the_ends_of_the_labels(sets: list[GradeSet], labels: ModelLabels, expected: Ends) -> None:
    assert ends([pair("q", "t", one) for one in sets], labels) == expected


def test_sensitivity_by_hand() -> None:
    pairs = [pair("甲", "ab", (5,)), pair("乙", "cd", (4,)), pair("乙", "ee", (4,))]
    pairs += [pair("甲", "f", (1,)), pair("乙", "g", (1,)), pair("乙", "h", (3,))]
    texts = Texts.of(pairs, Ends(((4,), (5,)), ((1,),)), draws=2, seed=0)
    parts = [row.part for row in texts.rows]
    assert parts == ["original", *["shuffled"] * 2] * 2 + ["low"] * 2
    assert texts.ineligible == 1 and texts.count("low") == 2
    grades = np.array([[5, 3, 4, 4, 2, 2, 1, 2], [2, 2, 2, 2, 2, 2, 3, 3]], float)
    found = Sensitivity(grades, texts, resamples=50, seed=0)
    assert found.values("sensitivity", [0, 1]) == pytest.approx([4.5 - 2.75, 0])
    assert found.values("reach", [0, 1]) == pytest.approx([3, -1])
    assert found.values("ratio", [0])[0] == pytest.approx(1.75 / 3)
    assert np.isnan(found.values("ratio", [1])[0])  # low pairs are graded higher
    drawn = np.unique(found.resampled("sensitivity", [0]).round(6))
    assert set(drawn) == {1.5, 1.75, 2.0}


def test_a_single_query_has_no_resamples_and_no_ratio() -> None:
    texts = Texts.of(
        [pair("甲", "ab", (5,)), pair("甲", "f", (1,))], Ends(((5,),), ((1,),)), draws=1, seed=0
    )
    found = Sensitivity(np.array([[5.0, 3.0, 1.0]]), texts, resamples=50, seed=0)
    assert found.values("sensitivity", [0]) == pytest.approx([2])
    assert np.isnan(found.values("ratio", [0])[0])
    assert found.resampled("sensitivity", [0]).shape == (1, 0)


def test_controls_that_cannot_be_drawn_are_left_out() -> None:
    heads = Shape(2, 2).all_heads
    found = masks(heads, Shape(2, 2), Draws(9, 3, 2, 0), seed=0, matching=[])
    assert list(found.curve) == [1, 3, 4]
    assert found.claim is not None and found.claim.matched == ()
    assert found.claim.target.heads == tuple(heads)
    nothing = masks([], Shape(2, 2), Draws(9, 3, 2, 0), seed=0, matching=heads[:1])
    assert nothing.claim is None and [v.name for v in nothing.variants] == ["none", "matching"]


def test_disturbed_texts_are_counted_and_grouped(checkpoint_of: Build) -> None:
    scorer = Scorer(open_checkpoint(checkpoint_of()))
    pairs = [pair("狗", "狗追猫", (4,), "order,short"), pair("猫狗", "哈哈", (1,))]
    found = disturbed(
        scorer, pairs, segmenter("jieba"), draws=3, resamples=20, seed=0, shown=silent
    )
    assert found.groups[:2] == ("1", "4") and found.groups[2].en == "tagged order"  # type: ignore[union-attr]
    assert found.ineligible["title", "characters"] == 1
    assert found.ineligible["query", "reversal"] == 1
    logits = scorer.logits([("狗", "狗追猫")])[0].astype(float)
    shares = np.exp(logits) / np.exp(logits).sum()
    four = found.cells[ORIGINAL][1]
    assert four.expected == pytest.approx(shares @ np.arange(1, 6), rel=1e-5)
    assert four.probabilities == pytest.approx(shares, rel=1e-5)
    reversed_ = found.cells["title", "reversal"][1].probabilities
    logits = scorer.logits([("狗", "猫追狗")])[0].astype(float)
    assert reversed_ == pytest.approx(np.exp(logits) / np.exp(logits).sum(), rel=1e-5)
    assert found.cells["title", "reversal"][0] == (None, None, None, 0)


def test_training_on_shuffled_titles_is_known_from_the_records(tmp_path: Path) -> None:
    assert trained_on_shuffled(tmp_path) == "unknown"
    (tmp_path / "training.json").write_text('{"sources": ["made.tsv"]}', encoding="utf-8")
    assert trained_on_shuffled(tmp_path) == "unknown"
    (tmp_path / "README.md").write_text("| `shuffled_words` | 1-2 |", encoding="utf-8")
    assert trained_on_shuffled(tmp_path) == "yes"


@pytest.fixture(scope="module")
def planted(checkpoint_of: Build, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("planted") / "order"
    return planted_order.plant(checkpoint_of(**planted_order.SHAPE), out)


def test_the_planted_head_is_the_only_one_named(planted: Path) -> None:
    found = order_scores(Scorer(open_checkpoint(planted)), planted_order.pairs(), seed=0)
    head = Head(0, planted_order.HEAD)
    assert found.named().heads() == [head] == found.best(1)
    assert found.score[head] > 5 and found.identity[head] < -0.9
    assert found.offset[head] == 2  # the previous token
    assert found.coverage == 1.0 and found.compared == 30
    others = np.delete(found.score.ravel(), planted_order.HEAD)
    assert np.abs(others - 1).max() < 0.01


def context_of(folder: Path, pairs: Sequence[Pair], tmp_path: Path, **changes: Any) -> ProbeContext:
    path = tmp_path / "pairs.tsv"
    path.write_text("query\ttitle\tgrade\n", encoding="utf-8")
    middle = len(pairs) // 2
    facts: dict[str, Any] = {
        "label": "order",
        "files": PairFiles(pairs=path, reader=ReaderOptions()),
        "work": tmp_path / "sweeps",
        "open_model": lambda: Scorer(open_checkpoint(folder)),
        "read_pairs": lambda labels: Split(list(pairs[:middle]), list(pairs[middle:]), 0),
        "resamples": 100,
    }
    return ProbeContext(**(facts | changes))


def run(context: ProbeContext, monkeypatch: pytest.MonkeyPatch) -> ProbeResult:
    small = Draws(matched=4, free=3, curve=2, curve_free=2)
    monkeypatch.setattr(study_module, "QUICK_DRAWS", small)
    monkeypatch.setattr(study_module, "FULL_DRAWS", small)
    return run_probe(PROBE, context)


def test_the_probe_names_the_planted_head(
    planted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = context_of(planted, planted_order.pairs(), tmp_path)
    found = run(context, monkeypatch)
    assert found.sets["order_named"] == (f"L0H{planted_order.HEAD}",)
    assert f"L0H{planted_order.HEAD}" in found.sets["order"]
    assert found.settings["comes_back"]["order_named"]["share"] == 1.0
    assert found.settings["guards"]["shuffled_titles"]["unmasked"] < 1e-4
    assert found.settings["trained_on_shuffled_titles"] == "unknown"
    path = tmp_path / "order.json"
    found.write(path)
    assert ProbeResult.read(path) == found
    assert found == run(context_of(planted, planted_order.pairs(), tmp_path), monkeypatch)


@pytest.mark.parametrize(
    ("options", "sets"),
    [
        ({"labels": 1}, [(1,), (4,), (5,)]),
        ({"labels": 3}, [(1,), (2,), (3,)]),
        ({}, [(1, 2), (3, 4), (5,)]),
        ({"family": "xlm-roberta"}, [(1,), (3,), (5,)]),
        ({"family": "electra", "layers": 4, "heads": 4}, [(2,), (3,)]),
    ],
)
def test_every_kind_of_model_and_label(
    options: dict[str, Any],
    sets: list[GradeSet],
    checkpoint_of: Build,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = random.Random(0)
    pairs = [
        Pair(one.query, one.title, sets[n // 2 % len(sets)], str(n), n + 1, None, {})
        for n, one in enumerate(planted_order.pairs(24))
    ]
    rng.shuffle(pairs)
    found = run(context_of(checkpoint_of(**options), pairs, tmp_path), monkeypatch)
    found.write(tmp_path / "order.json")
    claims = [one for one in found.findings if one.primary]
    assert [one.id for one in claims] == ["order_ratio", "order_shuffled_grade"]
    names = {figure.name for figure in found.figures}
    assert ("order_title_grades" in names) == (options.get("labels") != 1)
    if sets == [(2,), (3,)]:  # no high grade: nothing to be sensitive with
        assert [one.value for one in claims] == [None, None]


@pytest.mark.parametrize("texts", [("a", "b"), ("iphone 15", "buy an iphone"), ("哈", "哈哈哈")])
def test_texts_with_nothing_to_shuffle_or_no_characters(
    texts: tuple[str, str],
    checkpoint_of: Build,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pairs = [pair(texts[0] + "c" * n, texts[1], (1 if n % 3 else 5,)) for n in range(12)]
    found = run(context_of(checkpoint_of(), pairs, tmp_path), monkeypatch)
    found.write(tmp_path / "order.json")
    if len(texts[1]) == 1:
        assert found.settings["scored"]["validation"]["ineligible"] == 6
        assert found.sets["order"] == ()


def test_full_adds_the_other_mode_and_the_loud_control(
    checkpoint_of: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = checkpoint_of(layers=4, heads=4)
    context = context_of(folder, planted_order.pairs(), tmp_path, full=True)
    found = run(context, monkeypatch)
    assert {"order_mean", "order_loud"} <= {one.id for one in found.findings}


@pytest.mark.slow
def test_random_models_have_no_order_heads(checkpoint_of: Build, tmp_path: Path) -> None:
    pairs, base = planted_order.pairs(), checkpoint_of()
    named = 0
    for seed in range(20):
        folder = untrained(base, tmp_path / str(seed), seed)
        scores = order_scores(Scorer(open_checkpoint(folder)), pairs, seed=seed)
        named += bool(scores.named().heads())
    assert named <= 2
