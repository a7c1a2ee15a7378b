"""Who reads the shared terms: the [CLS] row by hand, a planted reader, random models, odd input."""

import math
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
import torch

from qt_bert.ablation.interventions import Variant
from qt_bert.data.pairs import Pair
from qt_bert.data.segmenters import segmenter
from qt_bert.heads import Head, Shape
from qt_bert.models.opening import open_checkpoint
from qt_bert.probes import focus
from qt_bert.probes.base import Context
from qt_bert.probes.focus import (
    FOCUS,
    QUANTITIES,
    WITHIN,
    Kind,
    by_focus,
    cls_rows,
    kinds_of,
    layer_of,
    name_focus_heads,
    partly_matched,
    row_quantities,
)
from qt_bert.probes.naming import stability
from qt_bert.scoring.bulk import Scorer
from qt_bert.stats.estimate import mean_of, over_queries
from tests.conftest import pair_of
from tests.probes import planted_focus as planted
from tests.probes.conftest import Build
from tests.probes.probe_results import claim, measured, result_of, values

JIEBA = segmenter("jieba")
HEADS = 8
"""So many of the planted model: 23 neighbours are enough for a contest."""


@pytest.fixture(scope="module")
def planted_model(tmp_path_factory) -> Path:
    return planted.plant(tmp_path_factory.mktemp("planted") / "model", HEADS)


@pytest.fixture
def on_planted(context_of, planted_model) -> Build:
    def build(**changes):
        halves = planted.pairs(60, seed=2), planted.pairs(60, seed=1)
        return context_of(planted_model, halves, **changes)

    return build


# The probe.


def test_the_planted_reader_is_read(on_planted, monkeypatch):
    matcher = Head.parse(planted.MATCHER)
    monkeypatch.setattr(focus, "chosen_heads", lambda *_: [matcher])
    monkeypatch.setattr(focus, "SETS", 5)
    result = result_of("focus", on_planted(full=True))
    assert result.sets["reader"] == result.sets["focused"] == (planted.READER,)
    assert result.sets["averted"] == () and result.facts["read"] is True
    shown = [head.head for head in result.heads if head.shown]
    assert shown == [planted.READER] and result.stability["reader"].overlap == 1
    found = values(result)
    assert found["reader_loss"] > 20 and found["reader_focus"] > 0.3
    # Alone the matching head gives the reader all of its focus, and others of its layer none.
    figures = {one.name: one for one in result.figures}
    before, after, control = (one.values for one in figures["before_and_after"].series)
    assert found["reader_focus_lost"] == pytest.approx(before[planted.READS], abs=1e-3)
    assert after[planted.READS] == pytest.approx(0, abs=1e-3)
    assert control[planted.READS] == pytest.approx(before[planted.READS], abs=1e-3)
    assert found["control_focus_lost"] == pytest.approx(0, abs=1e-3)
    assert found["reader_scatters"] > 0.1
    assert result.settings["layer_matched_sets"] == 5


def test_what_controls_lose_counts_their_draw(checkpoint_of, context_of, monkeypatch):
    """Its interval is that of a mean over the stored sets, of which more could be drawn."""
    monkeypatch.setattr(Context, "sign", lambda *_: 1)
    words = ("北京", "上海", "高铁", "票价", "苹果", "手机", "电影", "假期")
    pairs = [
        pair_of(f"{one}{n} {other}", f"{other} {words[n % 8]}", 1 + n % 5)
        for n, (one, other) in enumerate(permutations(words, 2))
    ]
    result = result_of("focus", context_of(checkpoint_of(layers=4, heads=6, hidden=48), pairs))
    stored = result.values["focus.needs"]
    assert not stored.enumerated and len(stored.sets) >= 19
    lost = [over_queries(of_set, range(len(of_set))) for of_set in stored.sets]
    control, alone = mean_of(lost, draws=len(lost)), mean_of(lost)
    found = measured(result)["control_focus_lost"]
    assert (found.ci_low, found.ci_high) == pytest.approx(control.interval(200, 0), abs=1e-6)
    assert found.ci_high - found.ci_low > 1.001 * np.ptp(alone.interval(200, 0))


def test_the_head_with_the_largest_focus_is_no_reader_unless_it_is_named(on_planted, monkeypatch):
    monkeypatch.setattr(focus, "LEAST_FOCUS", 1.0)
    result = result_of("focus", on_planted())
    assert result.sets["reader"] == (planted.READER,)
    assert result.facts["read"] is False and result.sets["focused"] == ()


# Tokens and the [CLS] row.


LETTERS = {"C": Kind.ITSELF, "S": Kind.SEPARATOR}
LETTERS |= {"q": Kind.QUERY_OTHER, "Q": Kind.QUERY_MATCHED, "^": Kind.QUERY_MARK}
LETTERS |= {"t": Kind.TITLE_OTHER, "T": Kind.TITLE_MATCHED, ",": Kind.TITLE_MARK}
"""A letter for each kind of token; capitals are matched."""


@pytest.mark.parametrize(
    ("family", "query", "title", "letters"),
    [
        ("bert", "苹果多少钱", "北京，苹果", "C QQqqq S tt,TT S"),
        ("xlm-roberta", "苹果多", "苹果 手机", "C ^QQq SS ,TT,tt S"),  # a mark is no character
    ],
)
def test_kinds_of_tokens(checkpoint_of, family, query, title, letters):
    scorer = Scorer(open_checkpoint(checkpoint_of(family)))
    (encoded,) = scorer.tokenizer.encode([(query, title)])
    kinds = [LETTERS[letter] for letter in letters.replace(" ", "")]
    assert list(kinds_of(encoded, query, title, JIEBA)) == kinds


def test_a_causal_models_row_is_that_of_its_last_token(checkpoint_of, context_of):
    """A title's own token, which is ITSELF and no term's; the numbers are Hugging Face's."""
    folder = checkpoint_of("qwen3")
    scorer = Scorer(open_checkpoint(folder))
    text = "高铁票价a", "b高铁票价"
    (encoded,) = scorer.tokenizer.encode([text])
    kinds = [Kind(kind) for kind in kinds_of(encoded, *text, JIEBA)]
    # 高铁票价 a | b 高铁票价, of which the last is read
    assert kinds == [Kind.QUERY_MATCHED, Kind.QUERY_OTHER, Kind.TITLE_OTHER, Kind.ITSELF]
    pair = Pair(*text, (1,), "", 1, "1", {})
    rows = cls_rows(context_of(folder, [pair]), [pair], [0, 1])[0, 0]
    with torch.inference_mode():
        maps = scorer.checkpoint.model(
            input_ids=torch.tensor([encoded.input_ids]), output_attentions=True
        ).attentions
    for layer in (0, 1):
        on = maps[layer][0, :, -1].numpy()
        assert rows[layer, :, QUANTITIES.index("itself")] == pytest.approx(on[:, 3], abs=1e-6)
        share = on[:, 0] / on[:, :3].sum(1)
        assert rows[layer, :, FOCUS] == pytest.approx(share - 1 / 3, abs=1e-5)


def test_a_row_is_measured_over_what_it_sees(checkpoint_of, context_of):
    """[CLS] of a layer with a window of four sees four tokens: 苹 果 of a term, 多 少 of none."""
    folder = checkpoint_of("modernbert")
    text = "苹果多少钱", "苹果手机"
    pair = Pair(*text, (1,), "", 1, "1", {})
    rows = cls_rows(context_of(folder, [pair]), [pair], [0, 1])[0, 0]
    checkpoint = open_checkpoint(folder)
    ids = checkpoint.tokenizer(*text, return_tensors="pt")["input_ids"]
    with torch.inference_mode():
        maps = checkpoint.model(input_ids=ids, output_attentions=True).attentions
    for layer, matched, characters in (
        (0, [1, 2, 7, 8], [1, 2, 3, 4, 5, 7, 8, 9, 10]),
        (1, [1, 2], [1, 2, 3, 4]),
    ):
        on = maps[layer][0, :, 0].numpy()
        share = on[:, matched].sum(1) / on[:, characters].sum(1)
        even = len(matched) / len(characters)
        assert rows[layer, :, FOCUS] == pytest.approx(share - even, abs=1e-5)


def test_a_model_that_reads_the_mean_has_no_reader(checkpoint_of, context_of):
    result = result_of("focus", context_of(checkpoint_of("modernbert", classifier_pooling="mean")))
    assert not result.measurements and claim(result).reason == "no_token"


def test_the_cls_row_by_hand():
    kinds = [Kind.ITSELF, Kind.QUERY_MATCHED, Kind.QUERY_OTHER, Kind.SEPARATOR]
    kinds += [Kind.TITLE_MATCHED, Kind.TITLE_OTHER, Kind.TITLE_OTHER, Kind.TITLE_MARK]
    kinds += [Kind.SEPARATOR]
    masks = torch.zeros(1, 10, len(Kind))  # the last token is padding
    masks[0, range(9), kinds] = 1
    weights = torch.tensor([[[0.1, 0.2, 0.1, 0.05, 0.1, 0.1, 0.0, 0.05, 0.3, 0.0]]])
    found = dict(zip(QUANTITIES, row_quantities(weights, masks)[0, 0].tolist(), strict=True))
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


def test_pairs_that_can_show_nothing_are_counted_out(checkpoint_of):
    texts = [("苹果", "苹果"), ("苹果", "上海"), ("苹果", "苹果手机"), ("苹果abc", "苹果")]
    pairs = [Pair(q, t, (1,), "", 1, "1", {}) for q, t in texts]
    kept, counts = partly_matched(pairs, Scorer(open_checkpoint(checkpoint_of())), JIEBA)
    assert [pair.title for pair in kept] == ["苹果手机", "苹果"]
    assert counts == {"pairs": 2, "none_matched": 1, "all_matched": 1, "coverage": 1.0}


def test_rows_are_of_queries(context_of, planted_model):
    made, pairs = context_of(planted_model), planted.pairs(6, seed=4)
    once, twice = (cls_rows(made, each, [2]) for each in (pairs, [*pairs, *pairs]))
    np.testing.assert_allclose(twice, once, atol=1e-5)
    assert cls_rows(made, [], [0, 2], [Variant("x")]).shape == (0, 2, 2, HEADS, len(QUANTITIES))


# What is chosen.


@pytest.mark.parametrize(("layers", "layer"), [(12, 10), (24, 22), (4, 2), (3, 1), (2, 1), (1, 0)])
def test_the_layer_is_the_last_but_one(layers, layer):
    assert layer_of(Shape(layers, 2)) == layer


def test_a_reader_has_its_focus_within_the_texts_too():
    rng = np.random.default_rng(0)
    rows = np.zeros((40, 1, 5, len(QUANTITIES)))
    rows[..., QUANTITIES.index("matched")] = 0.5
    rows[..., FOCUS] = rng.normal(0, 0.02, (40, 1, 5)) + [0.4, 0.4, 0.4, -0.3, 0.0]
    rows[..., WITHIN] = rng.normal(0, 0.02, (40, 1, 5)) + [0.2, 0.0, -0.2, -0.2, 0.4]
    found = name_focus_heads(rows)
    assert (found.focused, found.averted) == ([Head(0, 0)], [Head(0, 3)])
    for sign, heads in ((1, found.focused), (-1, found.averted)):
        back = stability(by_focus(rows, sign), heads, 40)
        assert back is not None and (back.overlap, back.halves) == (1.0, 1.0)
    assert found.p[0, 0] < 1e-6 < found.p[0, 4]
    assert found.focus[0, 2] == pytest.approx(0.4, abs=0.02)
    assert found.within[0, 2] == pytest.approx(-0.2, abs=0.02)
