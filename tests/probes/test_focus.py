"""Who reads the matched terms: the [CLS] row by hand, a planted reader, random models, odd inputs."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification

from qt_bert.ablation.variant import Variant
from qt_bert.encoder import open_checkpoint
from qt_bert.encoder.heads import Head, Shape
from qt_bert.pairs import Pair, segmenter
from qt_bert.probes.common.controls import contest
from qt_bert.probes.context import ProbeContext
from qt_bert.probes.probe import run_probe
from qt_bert.probes.readers import study as study_module
from qt_bert.probes.readers.choosing import name_readers
from qt_bert.probes.readers.claims import against
from qt_bert.probes.readers.cls_row import FOCUS, QUANTITIES, measure
from qt_bert.probes.readers.contests import Outcome, Wiring
from qt_bert.probes.readers.passes import rows
from qt_bert.probes.readers.sample import partly_matched
from qt_bert.probes.readers.study import layer_of
from qt_bert.probes.readers.terms import Kind, kinds_of, matched_terms
from qt_bert.probes.readers.wires import edges
from qt_bert.probes.registry import probe_named
from qt_bert.probes.split import PairFiles
from qt_bert.results import Finding, ProbeResult
from qt_bert.scoring.bulk import Scorer
from tests.conftest import PAIRS
from tests.probes import planted_focus as planted

JIEBA = segmenter("jieba")


def write_pairs(path: Path, pairs: list[Pair]) -> Path:
    lines = [f"{pair.query}\t{pair.title}\t{pair.label}\n" for pair in pairs]
    path.write_text("query\ttitle\tgrade\n" + "".join(lines), encoding="utf-8")
    return path


@pytest.fixture
def context(tmp_path: Path) -> Callable[..., ProbeContext]:
    """A context around a model folder and two pair files."""

    def build(model: Path, pairs: Path, **changes: Any) -> ProbeContext:
        facts: dict[str, Any] = {
            "label": "focus",
            "files": PairFiles(pairs=pairs),
            "work": tmp_path / "sweeps",
            "open_model": lambda: Scorer(open_checkpoint(model)),
            "resamples": 200,
        }
        return ProbeContext(**(facts | changes))

    return build


@pytest.fixture(scope="module")
def planted_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return planted.plant(tmp_path_factory.mktemp("planted") / "model")


@pytest.fixture
def planted_context(
    context: Callable[..., ProbeContext], planted_model: Path, tmp_path: Path
) -> Callable[..., ProbeContext]:
    def build(**changes: Any) -> ProbeContext:
        test = write_pairs(tmp_path / "test.tsv", planted.pairs(45, seed=1))
        dev = write_pairs(tmp_path / "dev.tsv", planted.pairs(45, seed=2))
        return context(planted_model, test, files=PairFiles(pairs=test, discovery=dev), **changes)

    return build


def finding(result: ProbeResult, id: str) -> Finding:
    return next(one for one in result.findings if one.id == id)


def test_terms_stand_whole_in_both_texts_and_say_something() -> None:
    # 北京 is part of another word there, and 的 says nothing.
    assert matched_terms("北京的票", "北京大学的票", JIEBA) == ([(3, 4)], [(5, 6)])
    assert matched_terms("EXCEL去重", "excel表格", JIEBA) == ([(0, 5)], [(0, 5)])
    assert matched_terms("好吗？", "行吗？", JIEBA) == ([], [])


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


def test_a_loss_is_measured_against_the_controls(context: Callable[..., ProbeContext]) -> None:
    made = contest("matching", [Head(0, 0)], Shape(2, 3), matched=9, free=0, seed=0)
    assert len(made.matched) == 2
    values = np.zeros((4, 4, 1, len(QUANTITIES)))
    values[:, 0, 0, FOCUS] = 0.5
    values[:, 1, 0, FOCUS] = [0.1, 0.2, 0.1, 0.2]
    values[:, 2, 0, FOCUS], values[:, 3, 0, FOCUS] = 0.4, 0.5
    found = against(Outcome(made, values), 0, context(Path(), Path()))
    assert found.change.value == pytest.approx(-0.35)
    assert found.difference.value == pytest.approx(-0.35 + 0.05)
    assert found.p == pytest.approx(1 / 3)
    alone = contest("matching", [Head(0, 0)], Shape(2, 1), matched=9, free=0, seed=0)
    bare = against(Outcome(alone, values[:, :2]), 0, context(Path(), Path()))
    assert (bare.difference.value, bare.p) == (pytest.approx(-0.35), None)


def test_edges_are_significant_and_strong() -> None:
    rng = np.random.default_rng(0)
    losses = rng.normal(0, 0.001, (30, 2, 3))
    losses[:, 0, 1] += 0.2
    losses[:, 1, 2] -= 0.1
    losses[:, 1, 1] += 0.005
    found = edges(Wiring([Head(0, 3), Head(1, 0)], losses), 2)
    assert [(one.source, one.target) for one in found] == [("L0H3", "L2H1"), ("L1H0", "L2H2")]
    assert [one.weight for one in found] == pytest.approx([0.2, -0.1], abs=1e-3)


def test_the_planted_reader_is_found(
    planted_context: Callable[..., ProbeContext], monkeypatch: pytest.MonkeyPatch
) -> None:
    matcher = Head.parse(planted.MATCHER)
    monkeypatch.setattr(study_module, "matching_below", lambda *_: [matcher])
    result = run_probe(probe_named("focus"), planted_context())
    assert result.sets["reader"] == result.sets["focused"] == (planted.READER,)
    assert result.sets["averted"] == ()
    focus, loss = (finding(result, id) for id in ("reader_focus", "reader_needs_matching"))
    assert focus.verdict == "reproduced" and focus.value is not None and focus.value > 0.3
    # Alone the matching head gives the reader all of its focus, and three others of its layer none.
    assert loss.value == pytest.approx(-finding_before(result), abs=1e-3)
    assert loss.p == pytest.approx(1 / 4)
    (wire,) = next(one for one in result.figures if one.name == "wiring").edges
    assert (wire.source, wire.target) == (planted.MATCHER, planted.READER)


def finding_before(result: ProbeResult) -> float:
    bars = next(one for one in result.figures if one.name == "before_and_after")
    return bars.series[0].values[planted.READS]


def test_the_matching_heads_are_found_too(planted_context: Callable[..., ProbeContext]) -> None:
    result = run_probe(probe_named("focus"), planted_context())
    assert result.sets["matching_below"][0] == planted.MATCHER
    assert result.sets["reader"] == (planted.READER,)


def test_a_full_run_has_mean_contexts_and_loud_heads(
    planted_context: Callable[..., ProbeContext], monkeypatch: pytest.MonkeyPatch
) -> None:
    matcher = Head.parse(planted.MATCHER)
    monkeypatch.setattr(study_module, "matching_below", lambda *_: [matcher])
    monkeypatch.setattr("qt_bert.probes.readers.contests.FULL_DRAWS", 3)
    result = run_probe(probe_named("focus"), planted_context(full=True))
    ids = {one.id for one in result.findings if not one.primary}
    assert {"reader_needs_matching_mean", "reader_needs_matching_loud"} <= ids
    assert result.settings["contested_pairs"] == result.pairs.n_pairs == 30


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
    context: Callable[..., ProbeContext],
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
    found = context(
        checkpoint_of(family, **options), path, files=PairFiles(pairs=path, discovery=path)
    )
    result = run_probe(probe_named("focus"), found)
    assert result.settings["layer"] == layer_of(Shape(options.get("layers", 2), 1))
    assert [one.id for one in result.findings][:2] == ["reader_focus", "reader_needs_matching"]
    result.write(tmp_path / "focus.json")
    assert ProbeResult.read(tmp_path / "focus.json").summary == result.summary


def test_texts_that_share_nothing(
    context: Callable[..., ProbeContext], checkpoint_of: Callable[..., Path], tmp_path: Path
) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("query\ttitle\tgrade\ncat\tdog\t1\nred\tblue\t2\n", encoding="utf-8")
    found = context(checkpoint_of(), path, files=PairFiles(pairs=path, discovery=path))
    result = run_probe(probe_named("focus"), found)
    assert all(one.value is None for one in result.findings if one.primary)
    assert {one.verdict for one in result.findings if one.primary} == {"inconclusive"}


@pytest.mark.slow
def test_random_models_have_no_readers(
    context: Callable[..., ProbeContext], tmp_path: Path
) -> None:
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
        seen = rows(made, made.discovery, range(4))[:, 0]
        found = name_readers(seen, seed)
        named += bool(found.focused or found.averted)
    assert named <= 2


def test_rows_are_of_queries(
    context: Callable[..., ProbeContext], planted_model: Path, tmp_path: Path
) -> None:
    pairs = planted.pairs(6, seed=4)
    path = write_pairs(tmp_path / "pairs.tsv", pairs)
    made = context(planted_model, path)
    both = [*pairs, *pairs]
    np.testing.assert_allclose(rows(made, both, [2]), rows(made, pairs, [2]), atol=1e-5)
    assert rows(made, [], [0, 2], [Variant("x")]).shape == (0, 2, 2, planted.HEADS, len(QUANTITIES))
