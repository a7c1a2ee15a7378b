"""Tuning taken back: a model in which one head learned all, odd models, bad bases."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qt_bert.data.pairs import Pair
from qt_bert.errors import ArgumentError, CheckpointError
from qt_bert.models.card import ModelLabels
from qt_bert.models.checkpoint import open_checkpoint, smaller_checkpoint
from qt_bert.models.heads import Shape
from qt_bert.planning.prune import save_smaller
from qt_bert.probes.base import Context, run_probe
from qt_bert.probes.revert.probe import PROBE
from qt_bert.probes.split import HeldOutFile, PairFiles, Split
from qt_bert.results.kept import KeptLayer
from qt_bert.results.probe import Finding, ProbeResult
from tests.probes import planted_shift
from tests.probes.judged import outcome
from tests.probes.matching_found import matching_found
from tests.probes.planted_shift import opened

Build = Callable[..., Path]
PAIRS = planted_shift.pairs()


@pytest.fixture(scope="module")
def planted(checkpoint_of: Build, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A base whose heads all attend evenly, and a model whose L0H1 learned to match."""
    folder, out = checkpoint_of(**planted_shift.SHAPE), tmp_path_factory.mktemp("planted")
    return (
        planted_shift.plant(folder, out / "base", 0.0),
        planted_shift.plant(folder, out / "model", 1.0),
    )


@pytest.fixture
def context(tmp_path: Path, pair_file: Path) -> Callable[..., Context]:
    def build(base: Path | None, model: Path, pairs: list[Pair] = PAIRS, **facts: Any) -> Any:
        def split(labels: ModelLabels) -> Split:
            fit = [replace(one, grades=(1 + at % labels.logits,)) for at, one in enumerate(pairs)]
            return Split(fit[:10], fit[10:], 0)

        made: dict[str, Any] = {
            "label": "revert",
            "files": PairFiles(pairs=pair_file),
            "read_pairs": split,
            "work": tmp_path / "sweeps",
            "open_model": lambda: opened(model),
            "base": base,
            "resamples": 200,
            "find": matching_found(open_checkpoint(model).shape, ("L0H1",), ("L0H1",)),
        }
        return Context(**(made | facts))

    return build


def by_id(result: ProbeResult) -> dict[str, Finding]:
    return {finding.id: finding for finding in result.findings}


def as_the_model_grades(model: Path) -> Callable[[ModelLabels], Split]:
    """Pairs whose labels are the model's own order, in five steps."""
    scores = opened(model).logits([(pair.query, pair.title) for pair in PAIRS])
    chances = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    ranks = (chances @ np.arange(1, 6)).argsort().argsort()
    graded = [
        replace(one, grades=(1 + int(rank) // 6,)) for one, rank in zip(PAIRS, ranks, strict=True)
    ]
    return lambda labels: Split(graded[:3], graded, 0)


def test_what_one_head_learned_is_lost_with_it(
    planted: tuple[Path, Path], context: Callable[..., Context]
) -> None:
    made = context(*planted, read_pairs=as_the_model_grades(planted[1]))
    result = run_probe(PROBE, made)
    found = by_id(result)
    assert result.settings["asked"] == {"heads": ["L0H1"], "named": True, "source": "probe"}
    loss = found["revert_set"]
    assert loss.primary and loss.value is not None and loss.value < -0.02
    assert loss.p == pytest.approx(1 / 4)  # three other heads in the layer, which learned nothing
    for name in ("revert_set_change", "revert_heads", "revert_everything"):
        assert found[name].value == pytest.approx(loss.value, abs=1e-6)
        assert not found[name].primary
    assert found["revert_kept"].value == pytest.approx(100)
    assert outcome(found["revert_across"]) == "reproduced"
    assert outcome(found["revert_same"]) == "not reproduced"
    assert found["revert_across_set"].value > 4 * found["revert_across"].value
    guards = result.settings["guards"]["revert"]
    assert max(guards["nothing"], guards["everything"]) <= guards["ends_bound"]
    scores = {one.head: one.scores for one in result.heads}
    assert scores["L0H1"]["across_after"] > 0.5 > scores["L0H1"]["across_before"]
    assert scores["L0H0"]["same_after"] == pytest.approx(scores["L0H0"]["same_before"])
    assert "heads not named" not in result.summary.en
    assert "0.250" in result.settings["resolution"]["en"]


def test_backwards_the_match_is_lost_and_so_is_the_same_word(
    planted: tuple[Path, Path], context: Callable[..., Context]
) -> None:
    found = by_id(run_probe(PROBE, context(planted[1], planted[0])))
    assert outcome(found["revert_across"]) == "not reproduced"
    assert outcome(found["revert_same"]) == "reproduced"


def test_a_full_run_asks_for_each_head_and_layer(
    planted: tuple[Path, Path], context: Callable[..., Context], pair_file: Path
) -> None:
    held_out = (HeldOutFile(path=pair_file),)
    made = context(*planted, full=True, held_out_files=held_out)
    result = run_probe(PROBE, made)
    names = [one.name for one in result.figures]
    assert {"revert_changes", "revert_one", "keep_one", "revert_layers"} < set(names)
    scores = {one.head: one.scores for one in result.heads}
    changed = [head for head, one in scores.items() if abs(one["reverted"]) > 1e-9]
    assert changed == ["L0H1"]
    gained = [head for head, one in scores.items() if abs(one["kept_alone"]) > 1e-9]
    assert gained == ["L0H1"]
    assert {"revert_set_held_out_1", "revert_everything_held_out_1"} <= by_id(result).keys()
    assert len(result.figures[0].series) == 2


def test_a_run_goes_on_where_it_stopped(
    planted: tuple[Path, Path], context: Callable[..., Context]
) -> None:
    first = run_probe(PROBE, context(*planted))
    again = run_probe(PROBE, context(*planted))  # another process would open both models anew, too
    assert again == first


@pytest.mark.parametrize(
    ("family", "options"),
    [
        ("bert", {"labels": 3, "layers": 4}),
        ("xlm-roberta", {"labels": 1}),
        ("electra", {"layers": 1}),
        ("bert", {"layers": 1, "heads": 1}),
    ],
)
def test_any_model(
    checkpoint_of: Build,
    context: Callable[..., Context],
    tmp_path: Path,
    family: str,
    options: dict[str, int],
) -> None:
    base, model = (checkpoint_of(family, **options, seed=seed) for seed in (1, 2))
    shape = Shape(options.get("layers", 2), options.get("heads", 2))
    made = context(base, model, full=True, find=matching_found(shape, ("L0H0",)))
    result = run_probe(PROBE, made)
    found = by_id(result)
    assert {"revert_set", "revert_across", "revert_same"} <= found.keys()
    if options.get("heads") == 1:  # there is no other head to compare with
        assert found["revert_set"].value is None
        assert outcome(found["revert_set"]) == "inconclusive"
    assert "heads not named" in result.summary.en
    assert all("heads not named" in one.note.en for one in result.figures)
    assert ("revert_set_accuracy" in found) == (options.get("labels") != 1 and shape.heads > 1)
    result.write(tmp_path / "revert.json")
    assert ProbeResult.read(tmp_path / "revert.json").summary == result.summary


def test_texts_that_share_nothing(checkpoint_of: Build, context: Callable[..., Context]) -> None:
    pairs = [Pair(f"a{i} b", f"c d{i} e", (1 + i % 5,), str(i), i + 1, "", {}) for i in range(20)]
    made = context(
        checkpoint_of(seed=1),
        checkpoint_of(seed=2),
        pairs,
        find=matching_found(Shape(2, 2), scored=False),
    )
    result = run_probe(PROBE, made)
    found = by_id(result)
    assert "revert_set" not in found and found["revert_across"].value is None
    assert outcome(found["revert_across"]) == "inconclusive"
    assert found["revert_same"].value is not None
    assert "no matching heads" in result.summary.en
    assert result.settings["asked"] is None


def test_a_pruned_model_cannot_be_asked(
    checkpoint_of: Build, context: Callable[..., Context], tmp_path: Path
) -> None:
    kept = tuple(KeptLayer(layer=number, heads=(0, 2)) for number in range(2))
    small = smaller_checkpoint(open_checkpoint(checkpoint_of(heads=4, seed=3)), kept)
    folder = save_smaller(tmp_path / "small", small)
    result = run_probe(PROBE, context(checkpoint_of(heads=4), folder))
    assert not result.findings and "made smaller" in result.summary.en


def test_what_is_no_base_is_refused(checkpoint_of: Build, context: Callable[..., Context]) -> None:
    with pytest.raises(ArgumentError, match="--base"):
        run_probe(PROBE, context(None, checkpoint_of()))
    with pytest.raises(CheckpointError, match="number of layers"):
        run_probe(PROBE, context(checkpoint_of(layers=3), checkpoint_of()))
    with pytest.raises(ArgumentError, match="do not fit the model's"):
        run_probe(PROBE, context(checkpoint_of(hidden=32), checkpoint_of()))
    with pytest.raises(ArgumentError, match="no head L7H0"):
        run_probe(PROBE, context(checkpoint_of(), checkpoint_of(), heads="L7H0"))
