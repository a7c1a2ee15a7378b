"""The parts of the study of readers: kinds of tokens, the [CLS] row by hand, naming, wires, words."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from qt_bert.data.pairs import Pair
from qt_bert.data.segmenters import segmenter
from qt_bert.models.checkpoint import open_checkpoint
from qt_bert.models.heads import Head, Shape
from qt_bert.probes.base import Context
from qt_bert.probes.controls import contest
from qt_bert.probes.focus import choosing
from qt_bert.probes.focus.against import Against, against
from qt_bert.probes.focus.case import case_of
from qt_bert.probes.focus.choosing import by_focus, choose, name_readers
from qt_bert.probes.focus.claims import loss_conclusions
from qt_bert.probes.focus.cls_row import FOCUS, QUANTITIES, WITHIN, measure
from qt_bert.probes.focus.contests import Outcome, Wiring, alone
from qt_bert.probes.focus.sample import partly_matched
from qt_bert.probes.focus.study import layer_of
from qt_bert.probes.focus.terms import Kind, kinds_of
from qt_bert.probes.focus.wires import wires
from qt_bert.probes.focus.words import LESS_AVERTED, LOSS_CONCLUSIONS, RISES_LESS, STEERED_AWAY
from qt_bert.probes.naming import Average, stability
from qt_bert.probes.split import PairFiles, Split
from qt_bert.scoring.bulk import Scorer
from qt_bert.text import Text
from tests.conftest import PAIRS

JIEBA = segmenter("jieba")


@pytest.fixture
def context(checkpoint_of: Callable[..., Path], pair_file: Path, tmp_path: Path) -> Context:
    """A context around a tiny model and the eight pairs, all of them in both splits."""
    pairs = [Pair(q, t, (grade,), "", 1, str(grade), {}) for q, t, grade in PAIRS]
    return Context(
        label="focus",
        files=PairFiles(pairs=pair_file),
        read_pairs=lambda labels: Split(pairs, pairs, 0),
        work=tmp_path / "sweeps",
        open_model=lambda: Scorer(open_checkpoint(checkpoint_of())),
        resamples=200,
    )


def test_kinds_of_tokens(checkpoint_of: Callable[..., Path]) -> None:
    scorer = Scorer(open_checkpoint(checkpoint_of()))
    (encoded,) = scorer.tokenizer.encode([("苹果多少钱", "北京，苹果")])
    kinds = [Kind(kind) for kind in kinds_of(encoded, "苹果多少钱", "北京，苹果", JIEBA)]
    assert kinds == [
        Kind.ITSELF,
        *[Kind.QUERY_MATCHED] * 2,
        *[Kind.QUERY_OTHER] * 3,
        Kind.SEPARATOR,
        *[Kind.TITLE_OTHER] * 2,
        Kind.TITLE_MARK,
        *[Kind.TITLE_MATCHED] * 2,
        Kind.SEPARATOR,
    ]


def test_a_mark_of_sentencepiece_is_no_character(checkpoint_of: Callable[..., Path]) -> None:
    scorer = Scorer(open_checkpoint(checkpoint_of("xlm-roberta")))
    (encoded,) = scorer.tokenizer.encode([("苹果多", "苹果 手机")])
    kinds = [Kind(kind) for kind in kinds_of(encoded, "苹果多", "苹果 手机", JIEBA)]
    assert kinds == [
        Kind.ITSELF,
        Kind.QUERY_MARK,
        *[Kind.QUERY_MATCHED] * 2,
        Kind.QUERY_OTHER,
        *[Kind.SEPARATOR] * 2,
        Kind.TITLE_MARK,
        *[Kind.TITLE_MATCHED] * 2,
        Kind.TITLE_MARK,
        *[Kind.TITLE_OTHER] * 2,
        Kind.SEPARATOR,
    ]
    case = case_of(scorer, JIEBA, Head(1, 0), alone([Head(0, 0)])[0], ())
    assert case.tokens[:3] == ("[CLS]", "▁", "紫熨斗") and not case.matched[1]  # one unknown piece


def test_the_cls_row_by_hand() -> None:
    kinds = [Kind.ITSELF, Kind.QUERY_MATCHED, Kind.QUERY_OTHER, Kind.SEPARATOR]
    kinds += [
        Kind.TITLE_MATCHED,
        Kind.TITLE_OTHER,
        Kind.TITLE_OTHER,
        Kind.TITLE_MARK,
        Kind.SEPARATOR,
    ]
    masks = torch.zeros(1, 10, len(Kind))  # the last token is padding
    masks[0, range(9), kinds] = 1
    weights = torch.tensor([[[0.1, 0.2, 0.1, 0.05, 0.1, 0.1, 0.0, 0.05, 0.3, 0.0]]])
    found = dict(zip(QUANTITIES, measure(weights, masks)[0, 0].tolist(), strict=True))
    on = np.array([0.2, 0.1, 0.1, 0.1]) / 0.5
    assert found == pytest.approx(
        {
            "query": 0.3,
            "title": 0.25,
            "matched": 0.3,
            "other": 0.2,
            "separator": 0.35,
            "itself": 0.1,
            "entropy": float(-(on * np.log(on)).sum() / math.log(5)),
            "focus": 0.3 / 0.5 - 2 / 5,
            "within": 0.6 - (0.6 * 1 / 2 + 0.4 * 1 / 3),
        }
    )


def test_even_attention_has_no_focus_and_extremes_say_nothing() -> None:
    masks = torch.zeros(2, 4, len(Kind))
    masks[:, 0, Kind.ITSELF] = 1
    masks[0, [1, 2, 3], [Kind.QUERY_MATCHED, Kind.TITLE_MATCHED, Kind.TITLE_OTHER]] = 1
    masks[1, [1, 2, 3], [Kind.QUERY_MATCHED, Kind.TITLE_MATCHED, Kind.TITLE_MATCHED]] = 1
    found = measure(torch.full((2, 1, 4), 0.25), masks)
    assert found[0, 0, FOCUS].item() == pytest.approx(0, abs=1e-6)
    assert torch.isnan(found[1, 0, FOCUS]) and found[1, 0, 0].item() == pytest.approx(0.25)


def test_pairs_that_can_show_nothing_are_counted_out(checkpoint_of: Callable[..., Path]) -> None:
    texts = [("苹果", "苹果"), ("苹果", "上海"), ("苹果", "苹果手机"), ("苹果abc", "苹果")]
    pairs = [Pair(q, t, (1,), "", 1, "1", {}) for q, t in texts]
    found = partly_matched(pairs, Scorer(open_checkpoint(checkpoint_of())), JIEBA)
    assert [pair.title for pair in found.pairs] == ["苹果手机", "苹果"]
    assert (found.none, found.all, found.coverage) == (1, 1, 1.0)


@pytest.mark.parametrize(("layers", "layer"), [(12, 10), (24, 22), (4, 2), (3, 1), (2, 1), (1, 0)])
def test_the_layer_is_the_last_but_one(layers: int, layer: int) -> None:
    assert layer_of(Shape(layers, 2)) == layer


def test_a_loss_is_measured_against_the_controls(context: Context) -> None:
    made = contest("matching", [Head(0, 0)], Shape(2, 3), matched=9, free=0, seed=0)
    assert len(made.matched) == 2
    values = np.zeros((4, 4, 1, len(QUANTITIES)))
    values[:, 0, 0, FOCUS] = 0.5
    values[:, 1, 0, FOCUS] = [0.1, 0.2, 0.1, 0.2]
    values[:, 2, 0, FOCUS], values[:, 3, 0, FOCUS] = 0.4, 0.5
    found = against(Outcome(made, values), 0, context)
    assert found.change.value == pytest.approx(-0.35)
    assert found.difference.value == pytest.approx(-0.35 + 0.05)
    assert found.p == pytest.approx(1 / 3)
    alone = contest("matching", [Head(0, 0)], Shape(2, 1), matched=9, free=0, seed=0)
    bare = against(Outcome(alone, values[:, :2]), 0, context)
    assert (bare.difference.value, bare.p) == (pytest.approx(-0.35), None)


def test_wires_are_chosen_on_one_half_and_weighed_on_the_other() -> None:
    rng = np.random.default_rng(0)
    found = rng.normal(0, 0.001, (30, 2, 3))
    found[:, 0, 1] += 0.2
    found[:, 1, 2] -= 0.1
    found[:, 1, 1] += 0.005  # too weak
    found[:, 0, 2] += 0.3  # turns on the other half
    seen = np.zeros((20, 2, 3))
    seen[:, 0, 1], seen[:, 1, 2], seen[:, 0, 2], seen[:, 1, 0] = 0.02, -0.4, -0.3, 0.9
    heads = [Head(0, 3), Head(1, 0)]
    kept = wires(Wiring(heads, found), Wiring(heads, seen), 2)
    ends = [(one.edge.source, one.edge.target) for one in kept]
    assert ends == [("L0H3", "L2H1"), ("L1H0", "L2H2")]
    assert [one.edge.weight for one in kept] == pytest.approx([0.02, -0.4])
    assert [len(one.losses) for one in kept] == [20, 20]
    nothing = Wiring(heads, seen[:0])
    assert wires(Wiring(heads, found), nothing, 2) == wires(nothing, nothing, 2) == []


def test_a_reader_has_its_focus_within_the_texts_too() -> None:
    rng = np.random.default_rng(0)
    rows = np.zeros((40, 1, 5, len(QUANTITIES)))
    rows[..., QUANTITIES.index("matched")] = 0.5
    rows[..., FOCUS] = rng.normal(0, 0.02, (40, 1, 5)) + [0.4, 0.4, 0.4, -0.3, 0.0]
    rows[..., WITHIN] = rng.normal(0, 0.02, (40, 1, 5)) + [0.2, 0.0, -0.2, -0.2, 0.4]
    found = name_readers(rows)
    assert (found.focused, found.averted) == ([Head(0, 0)], [Head(0, 3)])
    for sign, heads in ((1, found.focused), (-1, found.averted)):
        back = stability(by_focus(rows, sign), heads, 40)
        assert back is not None and (back.overlap, back.halves) == (1.0, 1.0)
    assert found.p[0, 0] < 1e-6 < found.p[0, 4]
    assert found.focus[0, 2] == pytest.approx(0.4, abs=0.02)
    assert found.within[0, 2] == pytest.approx(-0.2, abs=0.02)


@pytest.mark.parametrize(
    ("difference", "change", "focus", "away", "reproduced"),
    [
        (0.2, 0.1, 0.3, True, RISES_LESS),
        (0.2, -0.1, 0.3, False, None),
        (-0.2, -0.1, 0.3, False, None),
        (-0.2, -0.1, -0.3, False, LESS_AVERTED),
        (-0.2, 0.1, 0.3, False, RISES_LESS),
    ],
)
def test_what_may_be_concluded_of_a_loss(
    difference: float, change: float, focus: float, away: bool, reproduced: Text | None
) -> None:
    made = [Average(value, np.empty(0), np.empty(0)) for value in (difference, change)]
    said = loss_conclusions(Against(made[0], made[1], None), focus)
    usual = LOSS_CONCLUSIONS
    assert said["not reproduced"] is (STEERED_AWAY if away else usual["not reproduced"])
    assert said["reproduced"] is (reproduced or usual["reproduced"])


@pytest.mark.parametrize("sign", [1, -1])
def test_a_head_is_chosen_only_where_its_absence_costs(
    context: Context, monkeypatch: pytest.MonkeyPatch, sign: int
) -> None:
    class Costs(choosing.Effects):
        def change(self, variant: int, metric: str) -> float:
            return sign * [0.01, 0.03][variant - 1]

    monkeypatch.setattr(choosing, "Effects", Costs)
    found = choose(context, context.discovery, alone([Head(1, 0), Head(1, 1)]))
    assert found.metric == "log_loss"
    assert list(found.costs.values()) == [sign * 0.01, sign * 0.03]
    assert (found.head, found.interval is None) == (
        (Head(1, 1), False) if sign > 0 else (None, True)
    )
