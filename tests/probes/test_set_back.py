"""Layers set back to the base: planted differences, a plain reference, the claim of no effect."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from qt_bert.models.checkpoint import open_checkpoint, smaller_checkpoint
from qt_bert.planning.prune import save_smaller
from qt_bert.probes.base import Context
from qt_bert.probes.base_model import open_base
from qt_bert.probes.shift.set_back import depths_of, set_back_logits, third
from qt_bert.probes.shift.set_back_report import (
    set_back_figures,
    set_back_findings,
    set_back_settings,
    set_back_summary,
)
from qt_bert.probes.shift.set_back_study import SetBack, set_back_study
from qt_bert.probes.split import HeldOutFile, PairFiles, Split
from qt_bert.results.kept import KeptLayer
from qt_bert.results.probe import Finding
from qt_bert.scoring.bulk import Scorer
from tests.probes.judged import outcome
from tests.probes.planted_shift import opened, pairs

Build = Callable[..., Path]
PAIRS = [replace(pair, grades=(1 + row % 5,)) for row, pair in enumerate(pairs())]
TEXTS = [(pair.query, pair.title) for pair in PAIRS]


def changed(folder: Path, out: Path, part: str) -> Path:
    """The model of `folder` with other numbers in every weight whose name holds `part`."""
    model = AutoModelForSequenceClassification.from_pretrained(folder)
    torch.manual_seed(7)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if part in name:
                weight += torch.randn_like(weight)
    model.save_pretrained(out)
    AutoTokenizer.from_pretrained(folder).save_pretrained(out)
    return out


def run(base: Path, model: Path, depths: tuple[int, ...]) -> np.ndarray:
    scorer = opened(model)
    opened_base = open_base(base, scorer.checkpoint)
    return set_back_logits(Scorer(opened_base).encoder, scorer, PAIRS, depths)


@pytest.mark.parametrize("family", ["bert", "xlm-roberta", "electra"])
def test_a_base_that_is_the_model_changes_nothing(checkpoint_of: Build, family: str) -> None:
    folder = checkpoint_of(family, layers=3)
    found = run(folder, folder, (0, 1, 2, 3))
    np.testing.assert_allclose(found, np.broadcast_to(found[0], found.shape), atol=1e-5)
    np.testing.assert_allclose(found[0], opened(folder).logits(TEXTS), atol=1e-5)


@pytest.mark.parametrize(
    ("part", "from_depth"),
    [("encoder.layer.0.", 1), ("encoder.layer.2.", 3), (".embeddings.", 0), ("classifier", 4)],
)
def test_only_what_is_set_back_changes(
    checkpoint_of: Build, tmp_path: Path, part: str, from_depth: int
) -> None:
    base = checkpoint_of(layers=3)
    found = run(base, changed(base, tmp_path / "tuned", part), (0, 1, 2, 3))
    differs = [not np.allclose(row, found[0], atol=1e-5) for row in found[1:]]
    assert differs == [depth >= from_depth for depth in range(4)]


def test_it_is_the_model_with_the_base_weights_put_in(checkpoint_of: Build, tmp_path: Path) -> None:
    base, tuned = checkpoint_of(layers=3, seed=1), checkpoint_of(layers=3, seed=2)
    found = run(base, tuned, (2,))
    models = [AutoModelForSequenceClassification.from_pretrained(one) for one in (base, tuned)]
    state, old = models[1].state_dict(), models[0].state_dict()
    low = ("bert.embeddings.", "bert.encoder.layer.0.", "bert.encoder.layer.1.")
    state.update({name: value for name, value in old.items() if name.startswith(low)})
    models[1].load_state_dict(state)
    models[1].save_pretrained(tmp_path / "put")
    AutoTokenizer.from_pretrained(tuned).save_pretrained(tmp_path / "put")
    np.testing.assert_allclose(found[1], opened(tmp_path / "put").logits(TEXTS), atol=1e-5)


@pytest.mark.parametrize(
    ("layers", "most", "expected"),
    [
        (12, 6, (0, 2, 4, 6, 8, 10, 12)),
        (12, None, tuple(range(13))),
        (2, 6, (0, 1, 2)),
        (1, 6, (0, 1)),
        (24, 6, (0, 4, 8, 12, 16, 20, 24)),
        (7, 3, (0, 2, 4, 6, 7)),
    ],
)
def test_depths(layers: int, most: int | None, expected: tuple[int, ...]) -> None:
    assert depths_of(layers, most) == expected
    assert third(layers) in expected


def studied(base: Path, model: Path, tmp_path: Path, **facts: Any) -> list[SetBack]:
    context = Context(
        label="shift",
        files=PairFiles(pairs=tmp_path / "none"),
        read_pairs=lambda labels: Split([], PAIRS, 0),
        work=tmp_path,
        open_model=lambda: opened(model),
        resamples=200,
        **facts,
    )
    scorer = context.model
    found = set_back_study(Scorer(open_base(base, scorer.checkpoint)).encoder, context)
    assert context.guards["set_back"]["untouched"] < 1e-4
    return found


def findings(found: list[SetBack]) -> dict[str, Finding]:
    return {one.id: one for one in set_back_findings(found)}


def test_no_effect_is_found_where_the_low_layers_are_the_same(
    checkpoint_of: Build, tmp_path: Path, pair_file: Path
) -> None:
    base = checkpoint_of(layers=6)
    tuned = changed(base, tmp_path / "tuned", "encoder.layer.5.")
    held_out = (HeldOutFile(path=pair_file),)
    found = studied(base, tuned, tmp_path, held_out_files=held_out)
    said = findings(found)
    assert outcome(said["set_back"]) == "reproduced"
    assert said["set_back"].value == pytest.approx(0)
    assert outcome(said["set_back_held_out_1"]) == "reproduced"
    assert not said["set_back_accuracy"].primary
    assert pair_file.name in said["set_back_held_out_1"].claim.en
    assert [len(one.series) for one in set_back_figures(found)] == [2, 2]


def test_an_effect_is_found_where_they_differ(checkpoint_of: Build, tmp_path: Path) -> None:
    base = checkpoint_of(layers=3)
    found = studied(base, changed(base, tmp_path / "tuned", "encoder.layer.0."), tmp_path)
    change = found[0].change(1, "spearman")
    assert change is not None and abs(change.value) > 0.02
    assert outcome(findings(found)["set_back"]) != "reproduced"
    before = found[0].change(0, "spearman")
    assert before is not None and before.value == pytest.approx(0)


def test_one_logit_has_an_order_and_no_accuracy(checkpoint_of: Build, tmp_path: Path) -> None:
    base = checkpoint_of(labels=1)
    found = studied(base, checkpoint_of(labels=1, seed=3), tmp_path)
    said = findings(found)
    assert list(said) == ["set_back"] and "its own scores" in said["set_back"].claim.en
    assert [one.name for one in set_back_figures(found)] == ["set_back_spearman"]


def test_a_pruned_model_is_not_set_back_and_it_says_so(
    checkpoint_of: Build, tmp_path: Path
) -> None:
    base = checkpoint_of(heads=4)
    kept = tuple(KeptLayer(layer=number, heads=(0, 2)) for number in range(2))
    small = smaller_checkpoint(open_checkpoint(checkpoint_of(heads=4, seed=3)), kept)
    scorer = opened(save_smaller(tmp_path / "small", small))
    context = Context(
        label="shift",
        files=PairFiles(pairs=tmp_path / "none"),
        work=tmp_path,
        open_model=lambda: scorer,
    )
    found = set_back_study(Scorer(open_base(base, scorer.checkpoint)).encoder, context)
    assert found == [] and not list(set_back_findings(found)) and not list(set_back_figures(found))
    assert set_back_settings(found).keys() == {"zh", "en"}
    assert "pruned" in set_back_summary(found).en
