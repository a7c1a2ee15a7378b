"""Who reads the matched terms: the [CLS] row by hand, a planted reader, random models, odd inputs."""

from __future__ import annotations

from collections.abc import Callable
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
from qt_bert.probes.base import Context, run_probe
from qt_bert.probes.focus import study as study_module
from qt_bert.probes.focus.choosing import name_readers
from qt_bert.probes.focus.cls_row import QUANTITIES
from qt_bert.probes.focus.passes import rows
from qt_bert.probes.focus.study import layer_of
from qt_bert.probes.registry import probe_named
from qt_bert.probes.split import PairFiles
from qt_bert.results.probe import Finding, ProbeResult
from qt_bert.scoring.bulk import Scorer
from tests.conftest import PAIRS
from tests.probes import planted_focus as planted
from tests.probes.judged import outcome
from tests.probes.shown import check_shown

JIEBA = segmenter("jieba")


def write_pairs(path: Path, pairs: list[Pair]) -> Path:
    lines = [f"{pair.query}\t{pair.title}\t{pair.label}\n" for pair in pairs]
    path.write_text("query\ttitle\tgrade\n" + "".join(lines), encoding="utf-8")
    return path


@pytest.fixture
def context(tmp_path: Path) -> Callable[..., Context]:
    """A context around a model folder and two pair files."""

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
    return planted.plant(tmp_path_factory.mktemp("planted") / "model")


@pytest.fixture
def planted_context(
    context: Callable[..., Context], planted_model: Path, tmp_path: Path
) -> Callable[..., Context]:
    def build(**changes: Any) -> Context:
        test = write_pairs(tmp_path / "test.tsv", planted.pairs(45, seed=1))
        dev = write_pairs(tmp_path / "dev.tsv", planted.pairs(45, seed=2))
        return context(planted_model, test, files=PairFiles(pairs=test, discovery=dev), **changes)

    return build


def finding(result: ProbeResult, id: str) -> Finding:
    return next(one for one in result.findings if one.id == id)


def test_the_planted_reader_is_found(
    planted_context: Callable[..., Context], monkeypatch: pytest.MonkeyPatch
) -> None:
    matcher = Head.parse(planted.MATCHER)
    monkeypatch.setattr(study_module, "matching_below", lambda *_: [matcher])
    result = run_probe(probe_named("focus"), planted_context())
    assert result.sets["reader"] == result.sets["focused"] == (planted.READER,)
    assert result.sets["averted"] == ()
    focus, loss = (finding(result, id) for id in ("reader_focus", "reader_needs_matching"))
    assert outcome(focus) == "reproduced" and focus.value is not None and focus.value > 0.3
    assert "(on discovery, −log p of the label +" in result.summary.en
    assert "the largest of 4 heads" in result.summary.en and "4 个头里最大的" in result.summary.zh
    assert "Of all 16 heads, named as favouring shared terms: 1;" in result.summary.en
    wire = f"{planted.MATCHER} → {planted.READER}"
    assert f"The wire {wire}, the strongest on discovery, is +" in result.summary.en
    # Alone the matching head gives the reader all of its focus, and three others of its layer none.
    assert loss.value == pytest.approx(-finding_before(result), abs=1e-3)
    assert loss.p == pytest.approx(1 / 4)
    (wire,) = next(one for one in result.figures if one.name == "wiring").edges
    assert (wire.source, wire.target) == (planted.MATCHER, planted.READER)
    check_shown(result)


def finding_before(result: ProbeResult) -> float:
    bars = next(one for one in result.figures if one.name == "before_and_after")
    return bars.series[0].values[planted.READS]


def test_the_matching_heads_are_found_too(planted_context: Callable[..., Context]) -> None:
    result = run_probe(probe_named("focus"), planted_context())
    assert result.sets["matching_below"][0] == planted.MATCHER
    assert result.sets["reader"] == (planted.READER,)


def test_a_full_run_has_mean_contexts_and_loud_heads(
    planted_context: Callable[..., Context], monkeypatch: pytest.MonkeyPatch
) -> None:
    matcher = Head.parse(planted.MATCHER)
    monkeypatch.setattr(study_module, "matching_below", lambda *_: [matcher])
    monkeypatch.setattr("qt_bert.probes.focus.contests.FULL_DRAWS", 3)
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
    found = context(
        checkpoint_of(family, **options), path, files=PairFiles(pairs=path, discovery=path)
    )
    result = run_probe(probe_named("focus"), found)
    assert result.settings["layer"] == layer_of(Shape(options.get("layers", 2), 1))
    assert [one.id for one in result.findings][:2] == ["reader_focus", "reader_needs_matching"]
    result.write(tmp_path / "focus.json")
    assert ProbeResult.read(tmp_path / "focus.json").summary == result.summary


def test_texts_that_share_nothing(
    context: Callable[..., Context], checkpoint_of: Callable[..., Path], tmp_path: Path
) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("query\ttitle\tgrade\ncat\tdog\t1\nred\tblue\t2\n", encoding="utf-8")
    found = context(checkpoint_of(), path, files=PairFiles(pairs=path, discovery=path))
    result = run_probe(probe_named("focus"), found)
    assert all(one.value is None for one in result.findings if one.primary)
    assert {outcome(one) for one in result.findings if one.primary} == {"inconclusive"}


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
        seen = rows(made, made.discovery, range(4))[:, 0]
        found = name_readers(seen)
        named += bool(found.focused or found.averted)
    assert named <= 2


def test_rows_are_of_queries(
    context: Callable[..., Context], planted_model: Path, tmp_path: Path
) -> None:
    pairs = planted.pairs(6, seed=4)
    path = write_pairs(tmp_path / "pairs.tsv", pairs)
    made = context(planted_model, path)
    both = [*pairs, *pairs]
    np.testing.assert_allclose(rows(made, both, [2]), rows(made, pairs, [2]), atol=1e-5)
    assert rows(made, [], [0, 2], [Variant("x")]).shape == (0, 2, 2, planted.HEADS, len(QUANTITIES))
