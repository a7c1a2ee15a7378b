"""What matching heads compute: planted truths through the claims, odd models, odd texts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qt_bert.data.pairs import Pair
from qt_bert.errors import ArgumentError, PairFileError
from qt_bert.models.card import ModelLabels
from qt_bert.models.checkpoint import open_checkpoint, smaller_checkpoint
from qt_bert.models.heads import Shape
from qt_bert.planning.prune import save_smaller
from qt_bert.probes.base import Context, run_probe
from qt_bert.probes.split import HeldOutFile, PairFiles, Split
from qt_bert.probes.surrogate import study as study_module
from qt_bert.probes.surrogate.probe import PROBE
from qt_bert.probes.surrogate.study import Measured
from qt_bert.results.kept import KeptLayer
from qt_bert.results.probe import Finding, ProbeResult
from qt_bert.stats.arrays import FloatArray
from tests.probes import planted_shift
from tests.probes.judged import outcome
from tests.probes.matching_found import matching_found
from tests.probes.planted_shift import opened

Build = Callable[..., Path]
PAIRS = planted_shift.pairs()
BEST = ("L1H2", "L0H1")


@pytest.fixture
def context(tmp_path: Path, pair_file: Path) -> Callable[..., Context]:
    def build(model: Path, pairs: list[Pair] = PAIRS, **facts: Any) -> Context:
        def split(labels: ModelLabels) -> Split:
            fit = [replace(one, grades=(1 + at % labels.logits,)) for at, one in enumerate(pairs)]
            return Split(fit[: len(fit) // 2], fit[len(fit) // 2 :], 0)

        made: dict[str, Any] = {
            "label": "surrogate",
            "files": PairFiles(pairs=pair_file),
            "read_pairs": split,
            "work": tmp_path / "sweeps",
            "open_model": lambda: opened(model),
            "resamples": 200,
        }
        if "find" not in facts:
            made["find"] = matching_found(open_checkpoint(model).shape, BEST, BEST)
        return Context(**(made | facts))

    return build


def by_id(result: ProbeResult) -> dict[str, Finding]:
    return {finding.id: finding for finding in result.findings}


def measuring(grade: Callable[[FloatArray, np.random.Generator], FloatArray]) -> Any:
    """In place of a pass: features at random, and a grade made of them."""

    def measured(name: str, pairs: list[Pair], *_: Any) -> Measured:
        rng = np.random.default_rng(len(name))
        soft = rng.normal(size=(len(pairs), 2, 8))
        return Measured(name, pairs, grade(soft, rng), soft, rng.normal(size=(len(pairs), 2)))

    return measured


def many(count: int = 300) -> list[Pair]:
    return [Pair(f"北京{i}", f"上海{i}", (1,), str(i), i + 1, "1", {}) for i in range(count)]


def test_a_grade_made_of_the_heads_is_fitted(
    checkpoint_of: Build, context: Callable[..., Context], monkeypatch: pytest.MonkeyPatch
) -> None:
    def grade(soft: FloatArray, rng: np.random.Generator) -> FloatArray:
        return np.asarray(3 + soft[:, 1, 2] - 0.5 * soft[:, 0, 1])

    monkeypatch.setattr(study_module, "_measured", measuring(grade))
    result = run_probe(PROBE, context(checkpoint_of(heads=8), many()))
    found = by_id(result)
    assert found["surrogate_r"].value == pytest.approx(1)
    assert found["surrogate_r2"].value == pytest.approx(1)
    assert outcome(found["surrogate_beyond_bm25"]) == "reproduced"
    heads = found["surrogate_beyond_heads"]
    assert heads.value is not None and heads.value > 0.8
    assert heads.p == pytest.approx(1 / (1 + 49))  # seven others in either layer: 49 sets
    assert outcome(heads) == "reproduced"
    assert "heads not named" not in result.summary.en
    best = max(result.heads, key=lambda one: one.scores["r"] or 0)
    assert best.head == "L1H2" and best.selected


def test_a_random_grade_is_not(
    checkpoint_of: Build, context: Callable[..., Context], monkeypatch: pytest.MonkeyPatch
) -> None:
    def grade(soft: FloatArray, rng: np.random.Generator) -> FloatArray:
        return rng.normal(size=len(soft))

    monkeypatch.setattr(study_module, "_measured", measuring(grade))
    found = by_id(run_probe(PROBE, context(checkpoint_of(heads=8), many())))
    assert abs(found["surrogate_r"].value) < 0.2
    for name in ("surrogate_beyond_bm25", "surrogate_beyond_heads"):
        assert outcome(found[name]) != "reproduced"


@pytest.mark.parametrize(
    ("family", "options"),
    [
        ("bert", {"heads": 4}),
        ("electra", {"labels": 1, "heads": 4}),
        ("xlm-roberta", {"labels": 3, "heads": 4}),
        ("roberta", {"layers": 1, "heads": 1}),
    ],
)
def test_any_model(
    checkpoint_of: Build,
    context: Callable[..., Context],
    tmp_path: Path,
    family: str,
    options: dict[str, int],
) -> None:
    model = checkpoint_of(family, **options)
    best = BEST if options["heads"] > 1 else ("L0H0",)
    made = context(model, find=matching_found(open_checkpoint(model).shape, best))
    result = run_probe(PROBE, made)
    found = by_id(result)
    gain = found["surrogate_r"].value - found["surrogate_bm25"].value
    assert found["surrogate_beyond_bm25"].value == pytest.approx(gain)
    assert ("surrogate_matched" in found) == (options["heads"] > 1)
    if options["heads"] == 1:
        assert found["surrogate_beyond_heads"].value is None
    assert result.settings["directions"] == dict.fromkeys(sorted(best), "query_to_title")
    assert ("score" in found["surrogate_r"].claim.en) == (options.get("labels") == 1)
    assert "heads not named" in result.summary.en
    assert all("heads not named" in one.note.en for one in result.figures)
    assert len(result.heads) == len(open_checkpoint(model).shape.all_heads)
    result.write(tmp_path / "surrogate.json")
    assert ProbeResult.read(tmp_path / "surrogate.json").summary == result.summary


def test_other_files_and_a_corpus(
    checkpoint_of: Build, context: Callable[..., Context], pair_file: Path, tmp_path: Path
) -> None:
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("北京到上海\n苹果手机\n", encoding="utf-8")
    made = context(
        checkpoint_of(heads=4),
        corpus=corpus,
        held_out_files=(HeldOutFile(path=pair_file), HeldOutFile(path=pair_file)),
        heads="L0H0 L1H3",
        full=True,
    )
    result = run_probe(PROBE, made)
    assert {"surrogate_r_held_out_1", "surrogate_bm25_held_out_1"} <= by_id(result).keys()
    assert result.settings["idf"]["from"] == "corpus.txt"
    assert result.settings["idf"]["texts"] == 2
    asked = {"heads": ["L0H0", "L1H3"], "named": True, "source": "option"}
    assert result.settings["asked"] == asked
    assert len(result.figures[0].series) == 3
    twice = [pair_file.name, f"{pair_file.name} (2)"]
    assert list(result.settings["tested_on"]) == ["validation", *twice]
    corpus.write_bytes(b"")
    with pytest.raises(PairFileError, match="empty"):
        run_probe(PROBE, made)


def test_texts_in_which_no_head_was_scored(
    checkpoint_of: Build, context: Callable[..., Context]
) -> None:
    found = matching_found(Shape(2, 2), scored=False)
    result = run_probe(PROBE, context(checkpoint_of(), find=found))
    assert not any(one.primary for one in result.findings)
    assert {"surrogate_bm25", "surrogate_overlap"} == by_id(result).keys()
    assert "no matching heads" in result.summary.en
    assert len(result.heads) == 4 and result.settings["asked"] is None


def test_absent_heads_stay_absent(
    checkpoint_of: Build, context: Callable[..., Context], tmp_path: Path
) -> None:
    kept = tuple(KeptLayer(layer=number, heads=(0, 2, 3)) for number in range(2))
    small = smaller_checkpoint(open_checkpoint(checkpoint_of(heads=4)), kept)
    made = context(save_smaller(tmp_path / "small", small), find=None)
    shape = made.model.checkpoint.shape
    made.find = matching_found(shape, ("L1H2",), ("L1H2",))
    result = run_probe(PROBE, made)
    there = [f"L{layer}H{head}" for layer in (0, 1) for head in (0, 2, 3)]
    assert [one.head for one in result.heads] == there
    assert result.settings["layer_matched_draws"] == 2


def test_a_head_that_is_not_there(checkpoint_of: Build, context: Callable[..., Context]) -> None:
    with pytest.raises(ArgumentError, match="no head L7H0"):
        run_probe(PROBE, context(checkpoint_of(), heads="L7H0"))
