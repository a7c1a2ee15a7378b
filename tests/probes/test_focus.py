"""Who reads the shared terms: the [CLS] row by hand, a planted reader, random models, odd input."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification

from qt_bert.ablation.interventions import Variant
from qt_bert.data.pairs import Pair
from qt_bert.data.segmenters import segmenter
from qt_bert.models.checkpoint import open_checkpoint
from qt_bert.models.heads import Head, Shape
from qt_bert.probes import focus
from qt_bert.probes.base import Contest, Context, run_probe
from qt_bert.probes.focus import (
    ENTROPY,
    FOCUS,
    QUANTITIES,
    WITHIN,
    Kind,
    Reader,
    by_focus,
    choose_reader,
    cls_rows,
    is_read,
    kinds_of,
    layer_matched_sets,
    layer_of,
    name_readers,
    partly_matched,
    row_quantities,
    strongest_edges,
)
from qt_bert.probes.naming import by_mean, stability
from qt_bert.probes.registry import probe_named
from qt_bert.probes.split import PairFiles
from qt_bert.results.probe import ProbeResult
from qt_bert.scoring.bulk import Scorer
from qt_bert.stats.estimate import Estimate, over_queries
from tests.conftest import PAIRS
from tests.probes import planted_focus as planted

JIEBA = segmenter("jieba")
HEADS = 8
"""So many of the planted model: 23 neighbours are enough for a contest."""


def write_pairs(path: Path, pairs: list[Pair]) -> Path:
    lines = [f"{pair.query}\t{pair.title}\t{pair.label}\n" for pair in pairs]
    path.write_text("query\ttitle\tgrade\n" + "".join(lines), encoding="utf-8")
    return path


@pytest.fixture
def context(tmp_path: Path) -> Callable[..., Context]:
    """A context around a model folder and a pair file."""

    def build(model: Path, pairs: Path, **changes: Any) -> Context:
        facts: dict[str, Any] = {
            "label": "focus",
            "files": PairFiles(pairs=pairs),
            "work": tmp_path / "sweeps",
            "open_model": lambda: Scorer(open_checkpoint(model)),
            "resamples": 200,
        }
        return Context(**(facts | changes))

    return build


@pytest.fixture(scope="module")
def planted_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return planted.plant(tmp_path_factory.mktemp("planted") / "model", HEADS)


@pytest.fixture
def on_planted(
    context: Callable[..., Context], planted_model: Path, tmp_path: Path
) -> Callable[..., Context]:
    def build(**changes: Any) -> Context:
        test = write_pairs(tmp_path / "test.tsv", planted.pairs(45, seed=1))
        dev = write_pairs(tmp_path / "dev.tsv", planted.pairs(45, seed=2))
        return context(planted_model, test, files=PairFiles(pairs=test, discovery=dev), **changes)

    return build


def values(result: ProbeResult) -> dict[str, float | None]:
    return {one.id: one.value for one in result.measurements}


# The probe.


@pytest.mark.parametrize("full", [False, True])
def test_the_planted_reader_is_read(
    on_planted: Callable[..., Context], monkeypatch: pytest.MonkeyPatch, full: bool
) -> None:
    matcher = Head.parse(planted.MATCHER)
    monkeypatch.setattr(focus, "chosen_heads", lambda *_: [matcher])
    monkeypatch.setattr(focus, "QUICK_DRAWS", 3)
    monkeypatch.setattr(focus, "FULL_DRAWS", 5)
    result = run_probe(probe_named("focus"), on_planted(full=full))
    assert result.sets["reader"] == result.sets["focused"] == (planted.READER,)
    assert result.sets["averted"] == () and result.facts["read"] is True
    found = values(result)
    assert found["reader_loss"] > 20 and found["neighbours_loss"] < found["reader_loss"] / 5
    assert found["reader_focus"] > 0.3
    # Alone the matching head gives the reader all of its focus, and others of its layer none.
    figures = {one.name: one for one in result.figures}
    before, after, control = (one.values for one in figures["before_and_after"].series)
    assert found["reader_focus_change"] == pytest.approx(-before[planted.READS], abs=1e-3)
    assert after[planted.READS] == pytest.approx(0, abs=1e-3)
    assert control[planted.READS] == pytest.approx(before[planted.READS], abs=1e-3)
    assert found["reader_needs_matching"] == pytest.approx(found["reader_focus_change"], abs=1e-3)
    assert found["reader_scatters"] > 0.1
    (edge,) = figures["wiring"].edges
    assert (edge.source, edge.target) == (planted.MATCHER, planted.READER)
    assert edge.weight == found["strongest_edge"] == pytest.approx(before[planted.READS], abs=1e-3)
    assert set(figures) == {"heads", "before_and_after", "wiring"}
    assert result.settings["layer_matched_sets"] == (5 if full else 3)


def test_the_matching_heads_are_found_too(on_planted: Callable[..., Context]) -> None:
    result = run_probe(probe_named("focus"), on_planted())
    assert result.sets["matching_below"][0] == planted.MATCHER
    assert result.sets["reader"] == (planted.READER,)


def test_a_reader_that_is_not_beyond_its_neighbours_is_measured_alone(
    on_planted: Callable[..., Context], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(focus, "is_read", lambda *_: False)
    result = run_probe(probe_named("focus"), on_planted())
    assert result.figures == () and result.facts["read"] is False
    assert result.sets["reader"] == (planted.READER,)
    assert values(result)["reader_focus"] > 0.3 and "strongest_edge" not in values(result)


def test_reading_takes_a_loss_of_its_own_and_stability(
    on_planted: Callable[..., Context],
) -> None:
    made, queries = on_planted(), tuple(range(40))
    rng = np.random.default_rng(0)

    def loss(size: float) -> Estimate:
        return over_queries(size + rng.normal(0, 0.1, 40), queries)

    rule = np.zeros((40, 4, 4))
    rule[:, 2, 1] = 1 + rng.normal(0, 0.1, 40)
    stable = stability(by_mean(rule), [Head(2, 1)], 40)
    assert stable is not None and stable.verdict != "not stable"
    noise = stability(by_mean(rng.normal(0, 1, (40, 4, 4))), [Head(0, 0)], 40)
    assert noise is not None and noise.verdict == "not stable"
    reader = Reader(Head(2, 1), np.zeros((4, 4)), stable)
    others = tuple(loss(0) for _ in range(23))
    assert is_read(made, reader, Contest(target=loss(1), sets=others, enumerated=True))
    assert not is_read(made, reader, Contest(target=loss(0), sets=others, enumerated=True))
    assert not is_read(made, reader, Contest(target=loss(1), sets=others[:11], enumerated=True))
    shaky = replace(reader, stability=noise)
    assert not is_read(made, shaky, Contest(target=loss(1), sets=others, enumerated=True))
    assert not is_read(made, reader, None)


@pytest.mark.parametrize(
    ("family", "options"),
    [
        ("bert", {"layers": 1}),
        ("bert", {"layers": 4, "heads": 4}),
        ("electra", {"labels": 1}),
        ("roberta", {"labels": 3}),
        ("xlm-roberta", {}),
    ],
)
def test_any_model_goes_through(
    context: Callable[..., Context],
    checkpoint_of: Callable[..., Path],
    tmp_path: Path,
    family: str,
    options: dict[str, int],
) -> None:
    path = tmp_path / "pairs.tsv"
    grades = {
        3: ["0", "0", "2", "1", "2", "1", "0", "1"],
        1: ["1", "0", "1", "0", "1", "0", "1", "0"],
    }
    labels = grades.get(options.get("labels", 5), [str(grade) for *_, grade in PAIRS])
    texts = [*PAIRS[:6], ("苹果多少钱一斤", "苹果手机多少钱", 2), ("abc 去油", "abc 洗油", 1)]
    lines = [f"{q}\t{t}\t{label}\n" for (q, t, _), label in zip(texts, labels, strict=True)]
    path.write_text("query\ttitle\tgrade\n" + "".join(lines), encoding="utf-8")
    files = PairFiles(pairs=path, discovery=path)
    result = run_probe(
        probe_named("focus"), context(checkpoint_of(family, **options), path, files=files)
    )
    layers = options.get("layers", 2)
    assert result.settings["layer"] == layer_of(Shape(layers, 1))
    assert result.figures == () and result.facts["read"] is False
    assert ("reader_loss" in values(result)) == bool(result.sets["reader"])
    result.write(tmp_path / "focus.json")
    assert ProbeResult.read(tmp_path / "focus.json").summary == result.summary


def test_texts_that_share_nothing(
    context: Callable[..., Context], checkpoint_of: Callable[..., Path], tmp_path: Path
) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("query\ttitle\tgrade\ncat\tdog\t1\nred\tblue\t2\n", encoding="utf-8")
    found = context(checkpoint_of(), path, files=PairFiles(pairs=path, discovery=path))
    result = run_probe(probe_named("focus"), found)
    assert (result.measurements, result.heads, result.figures) == ((), (), ())
    assert result.settings["partly_matched"]["validation"]["none_matched"] == 2


@pytest.mark.slow
def test_random_models_have_no_readers(context: Callable[..., Context], tmp_path: Path) -> None:
    folder = tmp_path / "model"
    planted.write_tokenizer(folder)
    path = write_pairs(tmp_path / "pairs.tsv", planted.pairs(60, seed=3))
    named = 0
    for seed in range(20):
        torch.manual_seed(seed)
        config = BertConfig(
            vocab_size=len(planted.TOKENS),
            hidden_size=64,
            num_hidden_layers=4,
            num_attention_heads=4,
            intermediate_size=256,
            max_position_embeddings=64,
            num_labels=5,
        )
        BertForSequenceClassification(config).save_pretrained(folder)
        made = context(folder, path, seed=seed)
        found = name_readers(cls_rows(made, made.discovery, range(4))[:, 0])
        named += bool(found.focused or found.averted)
    assert named <= 2


# Tokens and the [CLS] row.


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


def test_the_cls_row_by_hand() -> None:
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


def test_even_attention_has_no_focus_and_extremes_say_nothing() -> None:
    masks = torch.zeros(2, 4, len(Kind))
    masks[:, 0, Kind.ITSELF] = 1
    masks[0, [1, 2, 3], [Kind.QUERY_MATCHED, Kind.TITLE_MATCHED, Kind.TITLE_OTHER]] = 1
    masks[1, [1, 2, 3], [Kind.QUERY_MATCHED, Kind.TITLE_MATCHED, Kind.TITLE_MATCHED]] = 1
    found = row_quantities(torch.full((2, 1, 4), 0.25), masks)
    assert found[0, 0, FOCUS].item() == pytest.approx(0, abs=1e-6)
    assert found[0, 0, ENTROPY].item() == pytest.approx(1, abs=1e-6)
    assert torch.isnan(found[1, 0, FOCUS]) and found[1, 0, 0].item() == pytest.approx(0.25)


def test_pairs_that_can_show_nothing_are_counted_out(checkpoint_of: Callable[..., Path]) -> None:
    texts = [("苹果", "苹果"), ("苹果", "上海"), ("苹果", "苹果手机"), ("苹果abc", "苹果")]
    pairs = [Pair(q, t, (1,), "", 1, "1", {}) for q, t in texts]
    kept, counts = partly_matched(pairs, Scorer(open_checkpoint(checkpoint_of())), JIEBA)
    assert [pair.title for pair in kept] == ["苹果手机", "苹果"]
    assert counts == {"pairs": 2, "none_matched": 1, "all_matched": 1, "coverage": 1.0}


def test_rows_are_of_queries(
    context: Callable[..., Context], planted_model: Path, tmp_path: Path
) -> None:
    pairs = planted.pairs(6, seed=4)
    made = context(planted_model, write_pairs(tmp_path / "pairs.tsv", pairs))
    once, twice = (cls_rows(made, each, [2]) for each in (pairs, [*pairs, *pairs]))
    np.testing.assert_allclose(twice, once, atol=1e-5)
    assert cls_rows(made, [], [0, 2], [Variant("x")]).shape == (0, 2, 2, HEADS, len(QUANTITIES))


# What is chosen.


@pytest.mark.parametrize(("layers", "layer"), [(12, 10), (24, 22), (4, 2), (3, 1), (2, 1), (1, 0)])
def test_the_layer_is_the_last_but_one(layers: int, layer: int) -> None:
    assert layer_of(Shape(layers, 2)) == layer


@pytest.mark.parametrize("sign", [1, -1])
def test_a_head_is_chosen_only_where_its_absence_costs(
    on_planted: Callable[..., Context], monkeypatch: pytest.MonkeyPatch, sign: int
) -> None:
    class Costs:
        def loss(self, name: str) -> Estimate:
            size = sign * (1 + Head.parse(name).head)
            return over_queries([size - 0.1, size, size + 0.1], "abc")

    monkeypatch.setattr(focus, "ablate", lambda *_: Costs())
    found = choose_reader(on_planted(), [], 2)
    assert found.costs[2].tolist() == pytest.approx([sign * (1 + head) for head in range(HEADS)])
    assert np.isnan(found.costs[[0, 1, 3]]).all()
    assert found.head == (Head(2, HEADS - 1) if sign > 0 else None)
    assert (found.stability is None) == (sign < 0)


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


def test_edges_are_chosen_on_discovery_and_keep_their_sign() -> None:
    rng = np.random.default_rng(0)
    found = rng.normal(0, 0.001, (30, 2, 3))
    found[:, 0, 1] += 0.2
    found[:, 1, 2] -= 0.1
    found[:, 1, 1] += 0.005  # too weak
    found[:, 0, 2] += 0.3  # turns on validation
    seen = np.zeros((20, 2, 3))
    seen[:, 0, 1], seen[:, 1, 2], seen[:, 0, 2], seen[:, 1, 0] = 0.02, -0.4, -0.3, 0.9
    heads = [Head(0, 3), Head(1, 0)]
    kept = strongest_edges(heads, 2, found, seen)
    assert kept == [(Head(0, 3), Head(2, 1)), (Head(1, 0), Head(2, 2))]
    assert strongest_edges(heads, 2, found, seen[:0]) == []
    assert strongest_edges(heads, 2, found[:0], seen) == []


def test_random_sets_match_the_layers_and_leave_named_heads_out() -> None:
    shape, heads = Shape(3, 5), [Head(0, 0), Head(1, 1)]
    drawn = layer_matched_sets(shape, heads, [Head(0, 1), Head(1, 4)], 99, 0)
    assert len(drawn) == 3 * 3  # of each layer three heads are left
    for one in drawn:
        assert [head.layer for head in one.heads] == [0, 1]
        assert not {*one.heads} & {*heads, Head(0, 1), Head(1, 4)}
    assert layer_matched_sets(shape, heads, [Head(0, head) for head in range(5)], 9, 0) == []
    assert layer_matched_sets(shape, [], [], 9, 0) == []
