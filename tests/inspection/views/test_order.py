"""The page of word order: other orders of a text, grades with and without heads, several draws."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from qt_bert.ablation.families import layer_matched
from qt_bert.ablation.masks import HeadMask
from qt_bert.ablation.request import leave_heads_out
from qt_bert.data.pairs import Pair
from qt_bert.errors import ArgumentError
from qt_bert.inspection.cache import Kept
from qt_bert.inspection.inspected import Inspected
from qt_bert.inspection.turns import Turns
from qt_bert.inspection.views import order as room
from qt_bert.inspection.views.order import (
    CASE,
    COLUMNS,
    HeadSet,
    Shuffled,
    distributions,
    draws,
    draws_map,
    head_sets,
    headline,
    order,
    rows,
    shuffled,
    spread,
    spread_bars,
    text_figure,
)
from qt_bert.models.checkpoint import open_checkpoint
from qt_bert.models.heads import Head, spell
from qt_bert.scoring.bulk import Scorer
from qt_bert.scoring.judge import read_outputs
from qt_bert.text import Text

Build = Callable[..., Path]
QUERY, TITLE = "京东小哥", "京东小哥最近在干嘛"
OTHER = Shuffled(query=QUERY, title=TITLE, side="title", text="嘛干在近最哥小东京")
SET = HeadSet(Text("甲", "a set"), (Head(0, 1), Head(2, 0)))


def inspect(folder: Path) -> Inspected:
    return Inspected(folder.name, open_checkpoint(folder), Turns())


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "_kept", Kept())


@pytest.fixture(scope="module")
def inspected(checkpoint_of: Build) -> Inspected:
    return inspect(checkpoint_of(layers=4, heads=4))


def expected(inspected: Inspected, texts: list[tuple[str, str]], heads: str) -> np.ndarray:
    """Expected grades by the scorer that the command line uses."""
    scorer = Scorer(inspected.scorer.checkpoint)
    if heads:
        pairs = [Pair(*texts[0], None, "1", 1, None, {})]
        scorer = leave_heads_out(scorer, heads, "zero", pairs)
    logits = np.concatenate([scorer.logits([one]) for one in texts])
    return read_outputs(logits, inspected.labels).ranking_score


def test_grades_are_those_of_the_command_line(inspected: Inspected) -> None:
    found = order(inspected, OTHER, [SET], mode="zero", seed=0)
    plain, out, random = found.ways
    for way, heads in ((plain, ""), (out, spell(SET.heads))):
        before, after = expected(inspected, [OTHER.before, OTHER.after], heads)
        assert (way.before.mean, way.after.mean) == pytest.approx((before, after), abs=1e-9)
        assert way.change == pytest.approx((after - before,) * 3, abs=1e-9)
    assert plain.change.mean != 0 != out.change.mean - plain.change.mean
    assert (out.size, random.size, random.heads, plain.size) == (2, 2, (), 0)
    assert plain.grades is not None and random.grades is None


def test_random_heads_are_layer_matched_draws(inspected: Inspected) -> None:
    random = order(inspected, OTHER, [SET], mode="zero", seed=5).ways[2]
    sets = layer_matched(inspected.shape, lambda h: HeadMask(tuple(h)), SET.heads, 20, 5)
    assert random.draws == len(sets) == 9  # three others in each of two layers
    changes = []
    for one in sets:
        before, after = expected(inspected, [OTHER.before, OTHER.after], spell(one.heads))
        changes.append(after - before)
    assert random.change == pytest.approx((np.mean(changes), min(changes), max(changes)), abs=1e-5)
    assert sum(one.mean for one in random.shares_after) == pytest.approx(1, abs=1e-5)


def test_a_layer_without_others_has_no_random_heads(inspected: Inspected) -> None:
    most = HeadSet(Text("乙", "most"), tuple(Head(1, n) for n in range(3)))
    found = order(inspected, OTHER, [most], mode="uniform", seed=0)
    assert len(found.ways) == 2 and found.without_random == (most.name,)
    assert any("no random ones" in one.en for one in room.notes(found))


def test_several_draws(inspected: Inspected) -> None:
    drawn = draws(inspected, QUERY, TITLE, side="title", kind="characters", seed=3, number=6)
    found = spread(inspected, drawn, [SET], mode="zero")
    assert found.changes.shape == (2, 6)
    before = expected(inspected, [OTHER.before], spell(SET.heads))[0]
    after = expected(inspected, [one.after for one in drawn], spell(SET.heads))
    np.testing.assert_allclose(found.changes[1], after - before, atol=1e-5)
    bars, each = spread_bars(found, inspected.labels), draws_map(found, inspected.labels, 3)
    assert bars.series[0].intervals is not None
    low, high = bars.series[0].intervals[1] or (0, 0)
    assert low == found.changes[1].min() and high == found.changes[1].max()
    assert each.columns == tuple("345678") and each.values[1][2] == found.changes[1, 2]
    with pytest.raises(ArgumentError, match="no other order"):
        spread(inspected, [], [], mode="zero")


def test_draws_count_texts_that_come_again(inspected: Inspected) -> None:
    drawn = draws(inspected, QUERY, "京东", side="title", kind="swap", seed=0, number=5)
    assert [one.text for one in drawn] == ["东京"] * 5
    assert spread(inspected, drawn, [], mode="zero").different == 1
    assert len(draws(inspected, QUERY, TITLE, side="title", kind="reversal", seed=0)) == 1


@pytest.mark.parametrize("kind", ["characters", "words", "reversal", "swap"])
@pytest.mark.parametrize("side", ["title", "query"])
def test_a_seed_gives_one_order(inspected: Inspected, kind: str, side: str) -> None:
    def drawn(seed: int) -> Shuffled | None:
        return shuffled(inspected, QUERY, TITLE, side=side, kind=kind, seed=seed)  # type: ignore[arg-type]

    one = drawn(0)
    assert one is not None and one == drawn(0)
    assert sorted(one.text) == sorted(one.original) and one.text != one.original
    assert one.difference is None
    assert one.after[side == "query"] == one.before[side == "query"]
    if kind == "characters":
        assert len({getattr(drawn(seed), "text", "") for seed in range(8)}) > 1


@pytest.mark.parametrize("text", ["哥", "哈哈哈", ""])
def test_texts_without_another_order(inspected: Inspected, text: str) -> None:
    for kind in ("characters", "words", "reversal", "swap"):
        assert shuffled(inspected, QUERY, text, side="title", kind=kind, seed=0) is None
        assert draws(inspected, QUERY, text, side="title", kind=kind, seed=0) == []


def test_a_typed_order() -> None:
    query, title, text = CASE
    article = Shuffled.typed(query, title, "title", text)
    assert article is not None and article.difference is not None
    assert "都" in article.difference.zh  # the article's shuffled title has a character more
    assert Shuffled.typed(query, title, "title", "  ") is None
    assert Shuffled.typed(query, title, "query", query) is None
    dirty = Shuffled.typed(query, title, "query", "哥\x00小\n东京")
    assert dirty is not None and dirty.text == "哥小 东京"
    figure = text_figure(article)
    assert [len(line.tokens) for line in figure.lines] == [len(title), len(text)]
    assert [token.marked for token in figure.lines[1].tokens] == [
        one != other for one, other in zip(text, title + " ", strict=True)
    ]


def test_sets_of_the_same_heads_come_once() -> None:
    heads = (Head(0, 1), Head(2, 0))
    found = head_sets({"order": (Head(1, 1),), "matching": heads, "reader": heads}, heads[::-1])
    assert [one.heads for one in found] == [(Head(1, 1),), heads]
    assert found[1].name.zh == "匹配头 = 左栏所选"
    assert head_sets({}, ()) == []


def test_pictures_and_table(inspected: Inspected) -> None:
    found = order(inspected, OTHER, [SET], mode="zero", seed=0)
    figure = distributions(found)
    assert figure.categories == tuple("12345")
    names = [getattr(series.name, "en", "") for series in figure.series]
    assert names[:3] == ["as it was", "reordered", "reordered, a set out"]
    assert all(sum(v for v in s.values if v) == pytest.approx(1, abs=1e-5) for s in figure.series)
    assert figure.series[2].intervals is None and figure.series[3].intervals is not None
    assert [one.change is None for one in headline(found)] == [True, False, False]
    assert headline(found)[1].value == f"{found.ways[0].after.mean:.3f}"
    plain, without, random = rows(found)
    assert plain.keys() == COLUMNS.keys() and plain["range"] is None
    assert without["name"] == SET.name and without["change"] == found.ways[1].change.mean
    assert random["name"].en.endswith(f" × {found.ways[2].draws}") and " … " in random["range"]


def test_a_model_of_one_logit(checkpoint_of: Build) -> None:
    inspected = inspect(checkpoint_of(labels=1))
    found = order(inspected, OTHER, [HeadSet(Text("", ""), (Head(0, 0),))], mode="zero", seed=0)
    figure = distributions(found)
    assert len(figure.categories) == 1 and found.ways[0].grades is None
    assert figure.series[0].values[0] == found.ways[0].before.mean
    assert rows(found)[0]["predicted"] is None


def test_long_texts_are_said_to_be_cut(inspected: Inspected) -> None:
    title = "京东小哥最近在干嘛" * 30
    pair = shuffled(inspected, QUERY, title, side="title", kind="reversal", seed=0)
    assert pair is not None
    assert len(order(inspected, pair, [], mode="zero", seed=0).notes) == 1


def test_what_the_folder_says_of_training(checkpoint_of: Build, fresh_checkpoint: Build) -> None:
    folder = fresh_checkpoint()
    assert "do not say" in room.trained(inspect(folder)).en
    (folder / "README.md").write_text("| `shuffled_words` | 1-2 | 800 |\n", encoding="utf-8")
    assert "was taught" in room.trained(inspect(folder)).en


def test_the_same_question_is_answered_from_what_is_kept(
    inspected: Inspected, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = order(inspected, OTHER, [SET], mode="zero", seed=0)
    monkeypatch.setattr(inspected, "run", None)
    monkeypatch.setattr(inspected, "graded", None)
    assert order(inspected, OTHER, [SET], mode="zero", seed=0) is first
