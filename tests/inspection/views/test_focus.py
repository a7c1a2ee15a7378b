"""[CLS]'s rows before and after heads are left out, against plain computations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qt_bert.ablation.families import layer_matched
from qt_bert.ablation.masks import HeadMask
from qt_bert.ablation.request import leave_heads_out
from qt_bert.data.pairs import Pair
from qt_bert.data.segmenters import segmenter
from qt_bert.inspection.inspected import Inspected
from qt_bert.inspection.models import Shelf
from qt_bert.inspection.state import State
from qt_bert.inspection.views import focus as module
from qt_bert.inspection.views.focus import Shift, focus
from qt_bert.models.checkpoint import open_checkpoint
from qt_bert.models.heads import Head
from qt_bert.scoring.bulk import Scorer
from qt_bert.scoring.explain import explain_pair

QUERY, TITLE = "北京到上海高铁", "北京高铁票多少钱"
STATE = State(
    model="m",
    query=QUERY,
    title=TITLE,
    layer=2,
    head=1,
    out=(Head(0, 1), Head(1, 3)),
    mode="zero",
    seed=0,
    language="zh",
)


@pytest.fixture(scope="module")
def folder(checkpoint_of: Callable[..., Path]) -> Path:
    return checkpoint_of("bert", layers=4, heads=4, positions=32)


@pytest.fixture(scope="module")
def inspected(folder: Path) -> Inspected:
    shelf = Shelf(folder)
    return shelf.open(shelf.names[0])


def by_name(shifts: tuple[Shift, ...]) -> dict[str, Shift]:
    return {shift.name.en: shift for shift in shifts}


def eager(folder: Path, pair: tuple[str, str]) -> list[np.ndarray]:
    """The attentions [heads, tokens, tokens] of the Hugging Face model, layer by layer."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    model = AutoModelForSequenceClassification.from_pretrained(folder, attn_implementation="eager")
    with torch.inference_mode():
        found = model.eval()(
            **AutoTokenizer.from_pretrained(folder)(*pair, return_tensors="pt"),
            output_attentions=True,
        )
    return [one[0].numpy() for one in found.attentions]


def test_the_row_is_the_models_own(inspected: Inspected, folder: Path) -> None:
    seen = focus(inspected, replace(STATE, out=()))
    (line,) = seen.tokens.lines
    values = np.array([token.value for token in line.tokens], np.float64)
    np.testing.assert_allclose(values, eager(folder, (QUERY, TITLE))[2][1, 0], atol=1e-5)
    assert [token.text for token in line.tokens] == ["[CLS]", *QUERY, "[SEP]", *TITLE, "[SEP]"]
    marked = [token.text for token in line.tokens if token.marked]
    assert marked == list("北京高铁" * 2)
    assert list(seen.layer["before"].values[1]) == list(values)
    assert seen.change is None and list(seen.layer) == ["before"] and seen.draws == 0
    assert [one.after for one in seen.shifts] == [None] * len(seen.shifts)


def test_the_numbers_by_hand(inspected: Inspected) -> None:
    seen = focus(inspected, STATE)
    for line, of in zip(seen.tokens.lines[:2], ("before", "after"), strict=True):
        weights = {name: 0.0 for name in ("matched", "other", "[SEP]", "[CLS]")}
        for token in line.tokens:
            kind = (
                token.text if token.text.startswith("[") else "matched" if token.marked else "other"
            )
            weights[kind] += token.value or 0.0
        found = by_name(seen.shifts)
        characters = weights["matched"] + weights["other"]
        share = 100 * weights["matched"] / characters
        expected = {
            "share on shared terms": share,
            "focus": share - 100 * 8 / 15,
            "weight on shared terms": 100 * weights["matched"],
            "weight on [SEP]": 100 * weights["[SEP]"],
            "weight on [CLS] itself": 100 * weights["[CLS]"],
        }
        for name, value in expected.items():
            assert getattr(found[name], of) == pytest.approx(value, abs=1e-3), name
        on_text = [
            t.value / characters for t in line.tokens if not t.text.startswith("[") and t.value
        ]
        entropy = -np.sum(on_text * np.log(on_text)) / np.log(15)
        assert getattr(found["scatter"], of) == pytest.approx(entropy, abs=1e-5)
    assert seen.change is not None
    before, after = (np.array([t.value for t in line.tokens]) for line in seen.tokens.lines[:2])
    changed = np.array([token.value for token in seen.change.lines[0].tokens], np.float64)
    np.testing.assert_allclose(changed, after - before, atol=1e-7)
    assert max(abs(after - before)) > 1e-3
    assert seen.change.scale == "diverging"


@pytest.mark.parametrize("mode", ["zero", "uniform"])
def test_grades_are_those_of_explain(inspected: Inspected, folder: Path, mode: str) -> None:
    seen = focus(inspected, replace(STATE, mode=mode))
    scorer, jieba = Scorer(open_checkpoint(folder)), segmenter("jieba")
    reference = [Pair(QUERY, TITLE, None, "1", 1, None, {})]
    without = leave_heads_out(scorer, "L0H1 L1H3", mode, reference)
    before, after = (explain_pair(QUERY, TITLE, one, jieba) for one in (scorer, without))
    assert seen.score is not None and seen.score.before is not None
    assert f"{seen.score.before:.4f}" == f"{before.score:.4f}"
    assert f"{seen.score.after:.4f}" == f"{after.score:.4f}"
    assert seen.score.change == pytest.approx(after.score - before.score, abs=1e-5)
    assert seen.predicted == tuple((one.outputs.predicted or [""])[0] for one in (before, after))
    assert seen.grades is not None and before.outputs.probabilities is not None
    whole = [100 * p for p in before.outputs.probabilities[0]]
    assert seen.grades.series[0].values == pytest.approx(whole, abs=1e-3)
    assert sum(value or 0 for value in seen.grades.series[1].values) == pytest.approx(100, abs=1e-3)


def test_random_heads_stand_beside(inspected: Inspected) -> None:
    seen = focus(inspected, STATE)
    drawn = layer_matched(inspected.shape, lambda heads: HeadMask(tuple(heads)), STATE.out, seed=0)
    assert seen.draws == len(drawn) == 9  # 3 other heads in each of two layers
    alone = [focus(inspected, replace(STATE, out=one.heads)) for one in drawn]
    for at, shift in enumerate(seen.shifts):
        values = [one.shifts[at].after for one in alone]
        assert shift.random is not None and shift.random_change is not None
        assert shift.random.low == pytest.approx(min(values), abs=1e-3)  # type: ignore[type-var]
        assert shift.random.mean == pytest.approx(np.mean(values), abs=1e-3)  # type: ignore[arg-type]
    scores = [one.score.after for one in alone if one.score and one.score.after]
    assert seen.score is not None and seen.score.random is not None
    assert seen.score.random.mean == pytest.approx(np.mean(scores), abs=1e-4)
    assert seen.score.random.high == pytest.approx(max(scores), abs=1e-4)
    assert seen.grades is not None and seen.grades.series[2].intervals is not None


def notes(inspected: Inspected, **changes: object) -> str:
    return " ".join(note.en for note in focus(inspected, replace(STATE, **changes)).notes)  # type: ignore[arg-type]


def test_what_a_reader_must_know_is_said(inspected: Inspected) -> None:
    assert notes(inspected) == ""
    assert "do not lie below layer 1" in notes(inspected, layer=1, out=(Head(1, 0), Head(3, 2)))
    assert "those not below layer 2 (L2H0)" in notes(inspected, out=(Head(0, 0), Head(2, 0)))
    assert "no term" in notes(inspected, query="红烧排骨", title="北京高铁")
    assert "title is too long" in notes(inspected, title=TITLE * 9)
    assert "No control" in notes(inspected, out=tuple(Head(0, head) for head in range(4)))


def test_heads_that_are_not_below_change_nothing(inspected: Inspected) -> None:
    seen = focus(inspected, replace(STATE, layer=1, out=(Head(1, 0), Head(3, 2))))
    assert seen.change is not None
    assert {token.value for token in seen.change.lines[0].tokens} == {0.0}
    assert seen.score is not None and seen.score.change


def test_another_head_or_layer_asks_for_no_forward(
    inspected: Inspected, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[object] = []
    run = inspected.run

    def counted(*given: Any) -> Any:
        calls.append(given)
        return run(*given)

    monkeypatch.setattr(inspected, "run", counted)
    monkeypatch.setattr(module, "_kept", type(module._kept)())
    state = replace(STATE, title="上海高铁时刻表")
    for layer, head in ((2, 1), (2, 3), (0, 0)):
        focus(inspected, replace(state, layer=layer, head=head))
    assert len(calls) == 1
    focus(inspected, replace(state, mode="uniform"))
    focus(inspected, replace(state, seed=1))
    focus(inspected, replace(state, out=()))
    assert len(calls) == 4


@pytest.mark.parametrize(
    ("family", "labels"), [("bert", 3), ("xlm-roberta", 1), ("electra", 5), ("ernie", 2)]
)
def test_any_model(checkpoint_of: Callable[..., Path], family: str, labels: int) -> None:
    shelf = Shelf(checkpoint_of(family, labels=labels))
    inspected = shelf.open(shelf.names[0])
    seen = focus(inspected, replace(STATE, layer=1, head=0, out=(Head(0, 1),)))
    assert (seen.grades is None) == (labels == 1)
    assert seen.score is not None
    assert seen.score.name.en == (
        "score" if labels == 1 else "expected grade" if labels == 5 else "expected level"
    )
    for figure in (seen.tokens, seen.change, seen.bars, *seen.layer.values()):
        assert figure is not None and figure.to_json()


def test_a_long_pair_has_bars_for_what_is_looked_at_most(
    checkpoint_of: Callable[..., Path],
) -> None:
    shelf = Shelf(checkpoint_of("bert", positions=64))
    inspected = shelf.open(shelf.names[0])
    seen = focus(inspected, replace(STATE, title=TITLE * 9, layer=1, head=0, out=()))
    assert len(seen.bars.categories) == 40 and seen.bars.note is not None
    assert "40 of 64" in seen.bars.note.en
    line = [token.value or 0 for token in seen.tokens.lines[0].tokens]
    assert sorted(seen.bars.series[0].values) == pytest.approx(sorted(line)[-40:])  # type: ignore[type-var]
