"""The front page: [CLS]'s rows before and after heads are left out, against plain computations."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from apps.screens import focus as page
from apps.screens.focus import focus, shifts
from qt_bert.ablation.families import layer_matched
from qt_bert.ablation.masks import HeadMask
from qt_bert.ablation.request import leave_heads_out
from qt_bert.data.pairs import Pair
from qt_bert.data.segmenters import segmenter
from qt_bert.heads import Head
from qt_bert.models.opening import open_checkpoint
from qt_bert.page.model import SharedModel
from qt_bert.probes.focus import FOCUS, cls_rows
from qt_bert.scoring.bulk import Scorer
from qt_bert.scoring.explain import explain_pair
from tests.apps.conftest import STATE as SOME
from tests.apps.conftest import counted, opened, shown
from tests.probes.made_context import context_of

QUERY, TITLE = SOME.query, SOME.title
WINDOWED = ("苹果多少钱", "苹果手机")
PAIR = {"q": QUERY, "t": TITLE, "layer": "1", "head": "1"}
STATE = replace(SOME, out=(Head(0, 1), Head(1, 3)))


@pytest.fixture(scope="module")
def folder(checkpoint_of):
    return checkpoint_of("bert", layers=4, heads=4, positions=32)


@pytest.fixture(scope="module")
def model(folder):
    return opened(folder)


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


def test_the_row_is_the_models_own(model, folder):
    seen = focus(model, replace(STATE, out=()))
    (line,) = page.cls_tokens(seen, STATE.chosen).lines
    values = np.array([token.value for token in line.tokens], np.float64)
    np.testing.assert_allclose(values, eager(folder, (QUERY, TITLE))[2][1, 0], atol=1e-5)
    assert [token.text for token in line.tokens] == ["[CLS]", *QUERY, "[SEP]", *TITLE, "[SEP]"]
    marked = [token.text for token in line.tokens if token.marked]
    assert marked == list("北京高铁" * 2)
    assert list(page.layer_map(seen, STATE.chosen).values[1]) == list(values)
    assert len(seen.rows) == 1 and seen.random is None
    assert {one.after for one in shifts(seen, STATE.chosen)} == {None}


def test_the_numbers_by_hand(model):
    seen = focus(model, STATE)
    found = {shift.quantity.name.en: shift for shift in shifts(seen, STATE.chosen)}
    lines = page.cls_tokens(seen, STATE.chosen).lines[:2]
    for line, of in zip(lines, ("before", "after"), strict=True):
        weights = {name: 0.0 for name in ("matched", "other", "[SEP]", "[CLS]")}
        for token in line.tokens:
            kind = (
                token.text if token.text.startswith("[") else "matched" if token.marked else "other"
            )
            weights[kind] += token.value or 0.0
        characters = weights["matched"] + weights["other"]
        share = 100 * weights["matched"] / characters
        expected = {
            "share on shared terms": share,
            "focus": share - 100 * 8 / 15,
            "weight on shared terms": 100 * weights["matched"],
            "weight on [SEP]": 100 * weights["[SEP]"],
        }
        for name, value in expected.items():
            assert getattr(found[name], of) == pytest.approx(value, abs=1e-3), name
        on_text = [
            t.value / characters for t in line.tokens if not t.text.startswith("[") and t.value
        ]
        entropy = -np.sum(on_text * np.log(on_text)) / np.log(15)
        assert getattr(found["scatter"], of) == pytest.approx(entropy, abs=1e-5)
    before, after = (np.array([t.value for t in line.tokens]) for line in lines)
    change = page.layer_map(seen, STATE.chosen)
    np.testing.assert_allclose(np.array(change.values[1], float), after - before, atol=1e-7)
    assert max(abs(after - before)) > 1e-3
    assert change.scale == "diverging"


def test_the_score_by_layer_ends_in_the_score(model):
    seen = focus(model, STATE)
    (line,) = page.score_curve(seen).series
    assert [point.x for point in line.points] == [0, 1, 2, 3, 4]
    last = float(seen.grades[0].ranking_score[0])
    assert line.points[-1].y == pytest.approx(last, abs=1e-5)
    text = page.decided(replace(seen, by_layer=np.array([1, 4.5, 2, 4.2, 4.6])))
    assert "4.6" in text.en and "r3" in text.en and "r3" in text.zh


@pytest.mark.parametrize("mode", ["zero", "uniform"])
def test_grades_are_those_of_explain(model, folder, mode):
    seen = focus(model, replace(STATE, mode=mode))
    scorer, jieba = Scorer(open_checkpoint(folder)), segmenter("jieba")
    reference = [Pair(QUERY, TITLE, None, "1", 1, None, {})]
    without = leave_heads_out(scorer, "L0H1 L1H3", mode, reference)
    both = [explain_pair(QUERY, TITLE, one, jieba) for one in (scorer, without)]
    score = shifts(seen, STATE.chosen)[0]
    assert (score.before, score.after) == tuple(one.score for one in both)
    for found, one in zip(seen.grades, both, strict=True):
        assert found.predicted == one.outputs.predicted
        np.testing.assert_array_equal(found.probabilities, one.outputs.probabilities)
    bars = page.grade_bars(seen)
    assert bars is not None
    assert sum(value or 0 for value in bars.series[1].values) == pytest.approx(100, abs=1e-3)


def test_random_heads_stand_beside(model):
    seen = focus(model, STATE)
    drawn = layer_matched(model.shape, lambda heads: HeadMask(tuple(heads)), STATE.out, seed=0)
    assert seen.random is not None and len(seen.random) == len(drawn) == 9  # 3 others of two layers
    alone = [focus(model, replace(STATE, out=one.heads)) for one in drawn]
    each = [shifts(one, STATE.chosen) for one in alone]
    for place, shift in enumerate(shifts(seen, STATE.chosen)):
        values = [one[place].after for one in each]
        assert shift.random == pytest.approx(np.array(values), abs=1e-3)
    bars = page.grade_bars(seen)
    assert bars is not None and bars.series[2].intervals is not None


def test_random_heads_avoid_named_ones(model):
    state = replace(STATE, title="上海高铁票价")
    assert len(focus(model, state, frozenset({Head(0, 0), Head(0, 2)})).random) == 3
    assert focus(model, state, frozenset(Head(1, head) for head in range(4))).random is None


def test_focus_is_the_probes_in_a_layer_with_a_window(checkpoint_of, tmp_path):
    folder = checkpoint_of("modernbert")
    pair = Pair(*WINDOWED, (1,), "", 1, "1", {})
    rows = cls_rows(context_of("focus", folder, tmp_path, ([pair], [pair])), [pair], [0, 1])[
        0, 0, ..., FOCUS
    ]
    query, title = WINDOWED
    seen = focus(opened(folder), replace(STATE, query=query, title=title, out=()))
    np.testing.assert_allclose(seen.measured[0, ..., page.FOCUS_PLACE], 100 * rows, atol=1e-3)


def notes(model: SharedModel, **changes: object) -> str:
    state = replace(STATE, **changes)
    return " ".join(note.en for note in page.notes(focus(model, state), state))


def test_what_a_reader_must_know_is_said(model):
    assert notes(model) == ""
    assert "do not lie below layer 1" in notes(model, layer=1, out=(Head(1, 0), Head(3, 2)))
    assert "L2H0 do not lie below layer 2" in notes(model, out=(Head(0, 0), Head(2, 0)))
    for query, title in (("红烧排骨", "北京高铁"), ("北京高铁", "北京高铁"), ("？", "，，")):
        assert "no shared term, or shared terms alone" in notes(model, query=query, title=title)
    assert "title is too long" in notes(model, title=TITLE * 9)
    assert "No control" in notes(model, out=tuple(Head(0, head) for head in range(4)))


EXAMPLE = {"focused": (Head(0, 2), Head(2, 1))}


@pytest.mark.parametrize(
    ("sets", "studied", "words"),
    [
        (EXAMPLE | {"reader": (Head(2, 1),)}, True, "L2H1 is the reader."),
        (EXAMPLE, True, "no such head (reader). L2H1 is an example"),
        ({}, False, "is not known"),
    ],
)
def test_a_head_is_called_what_it_is(model, sets, studied, words):
    seen = focus(model, STATE)
    example = page.example_of(seen, sets, [Head(1, 3)])
    assert example is not None and example.layer > 1
    assert words in page.about_head(STATE.chosen, sets, example, studied=studied).en


def test_one_sentence_says_what_happened(model):
    for state in (STATE, replace(STATE, out=())):
        seen = focus(model, state)
        _, share, focused, *_ = shifts(seen, STATE.chosen)
        out = page.heads_name(state.out, {"matching": STATE.out})
        words = page.sentence(STATE.chosen, share, focused, out).en
        assert f"{share.before:.0f}%" in words and "53% of the characters" in words
        if state.out:
            assert f" → {share.after:.0f}%" in words
            assert "the 2 matching heads" in words and "random heads: " in words


def test_texts_without_characters_have_no_share(model):
    state = replace(STATE, query="？", title="，")
    _, share, focused, *_ = shifts(focus(model, state), STATE.chosen)
    words = page.sentence(STATE.chosen, share, focused, page.heads_name(state.out, {})).en
    assert "Shared terms get — of" in words


def test_a_causal_models_last_token_is_what_cls_names(checkpoint_of):
    causal = opened(checkpoint_of("qwen2"))
    assert "last token, here called [CLS]" in notes(causal, layer=1, head=0, out=())


def test_another_head_or_layer_asks_for_no_forward(model, monkeypatch):
    calls = counted(model, monkeypatch)
    state = replace(STATE, title="上海高铁时刻表")
    for layer, head in ((2, 1), (2, 3), (0, 0)):
        focus(model, replace(state, layer=layer, head=head))
    assert len(calls) == 1
    focus(model, replace(state, mode="uniform"))
    focus(model, replace(state, seed=1))
    focus(model, replace(state, out=()))
    assert len(calls) == 4


@pytest.mark.parametrize(
    ("family", "labels", "name"), [("bert", 3, "expected level"), ("xlm-roberta", 1, "score")]
)
def test_any_model(checkpoint_of, family, labels, name):
    model = opened(checkpoint_of(family, labels=labels))
    seen = focus(model, replace(STATE, layer=1, head=0, out=(Head(0, 1),)))
    assert (page.grade_bars(seen) is None) == (labels == 1)
    assert shifts(seen, Head(1, 0))[0].quantity.name.en == name


def metrics(at: Any) -> dict[str, tuple[str, str]]:
    """Name → value and change of the numbers at the top."""
    return {one.label: (one.value, one.delta.replace("−", "-")) for one in at.metric}


def test_heads_left_out_change_the_numbers(app):
    whole, without = metrics(app(**PAIR, out="none")), metrics(app(**PAIR, out="L0H1"))
    assert [f"去掉头之后：{name}" for name in whole] == [*without] and len(whole) == 6
    assert all(not delta for _, delta in whole.values())
    grade = next(name for name in whole if name.startswith("期望等级"))
    before, (after, change) = float(whole[grade][0]), without[f"去掉头之后：{grade}"]
    assert float(change) == pytest.approx(float(after) - before, abs=1e-3)
    assert float(change) != 0


def test_hostile_text_stays_text(app):
    at = app(q="<img src=x onerror=alert(1)>", t="**粗** :red[红] $x$ [a](http://b)")
    assert not at.exception and "<img" not in shown(at)
