"""What fine-tuning changes: a planted head, a second seed, the whole probe."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qt_bert.errors import ArgumentError, CheckpointError
from qt_bert.models.card import ModelLabels
from qt_bert.models.heads import Head, Shape
from qt_bert.probes.base import Context, run_probe
from qt_bert.probes.registry import probe_named
from qt_bert.probes.shift import _last_layers, strengthened
from qt_bert.probes.shift_maps import LIKENESS, WEIGHTS, Comparison
from qt_bert.probes.split import PairFiles, Split
from qt_bert.results.probe import ProbeResult
from tests.probes import planted_shift
from tests.probes.planted_shift import compared, opened

Build = Callable[..., Path]
PLACED = list(enumerate(planted_shift.pairs()))
HEADS = ("L0H1", "L0H0")


@pytest.fixture(scope="module")
def planted(checkpoint_of: Build, tmp_path_factory: pytest.TempPathFactory) -> dict[float, Path]:
    """Models whose L0H1 matches tokens not at all, a little, and strongly."""
    folder = checkpoint_of(**planted_shift.SHAPE)
    out = tmp_path_factory.mktemp("planted")
    return {
        strength: planted_shift.plant(folder, out / f"strength-{strength}", strength)
        for strength in (0.0, 0.05, 1.0)
    }


@pytest.fixture
def context(tmp_path: Path, pair_file: Path) -> Callable[..., Context]:
    """A context around two folders, of made pairs or of the eight in a file."""

    def build(base: Path | None, model: Path, *, made: bool = True, **facts: Any) -> Context:
        def split(labels: ModelLabels) -> Split:
            fit = [replace(pair, grades=(1 + row % labels.logits,)) for row, pair in PLACED]
            return Split(fit[:15], fit[15:], 0)

        return Context(
            label="shift",
            files=PairFiles(pairs=pair_file),
            read_pairs=split if made else None,
            work=tmp_path / "sweeps" / "shift",
            open_model=lambda: opened(model),
            base=base,
            resamples=200,
            **facts,
        )

    return build


def asked(context: Context) -> ProbeResult:
    return run_probe(probe_named("shift"), context)


def values(result: ProbeResult) -> dict[str, float | None]:
    return {one.id: one.value for one in result.measurements}


@pytest.fixture(scope="module")
def random_pair(checkpoint_of: Build) -> tuple[Path, Path]:
    return checkpoint_of(seed=1), checkpoint_of(seed=2)


def test_a_model_beside_itself_has_not_changed(random_pair: tuple[Path, Path]) -> None:
    found = compared(random_pair[0], random_pair[0])
    assert np.abs(found.after - found.before).max() == 0
    np.testing.assert_allclose(found.likeness[..., :2], 1, atol=1e-6)
    np.testing.assert_allclose(found.likeness[..., 2], 0, atol=1e-6)
    assert strengthened(found).heads() == []


def test_exactly_the_planted_head_changes(planted: dict[float, Path]) -> None:
    found = compared(planted[0.0], planted[1.0])
    likeness = found.likeness.mean(0)
    others = np.ones((2, 4), bool)
    others[0, 1] = False
    np.testing.assert_allclose(likeness[others][:, :2], 1, atol=1e-6)
    np.testing.assert_allclose(likeness[others][:, 2], 0, atol=1e-3)
    assert likeness[0, 1, 0] < 0.9
    assert likeness[0, 1, 2] > 0.3
    assert found.after[:, 0, 1, 0].min() > 0.8
    assert strengthened(found).heads() == [Head(0, 1)]
    assert strengthened(compared(planted[1.0], planted[0.0])).heads() == []


def test_the_probe_tells_what_became_of_the_planted_head(
    planted: dict[float, Path], context: Callable[..., Context]
) -> None:
    result = asked(context(planted[0.05], planted[1.0]))
    assert result.sets == {"matching_before": ("L0H1",), "strengthened": ("L0H1",)}
    (claim,) = result.claims
    assert claim.id == "shift.matched" and claim.value is not None and claim.value > 30
    found = values(result)
    assert found["matched_after"] - found["matched_before"] == pytest.approx(claim.value)
    assert found["strengthened_again"] == found["beyond_others"] == pytest.approx(claim.value)
    assert found["separators"] < 0 and abs(found["all_separators"]) < abs(found["separators"])
    assert found["last_layers"] is None  # of two layers
    assert result.stability["strengthened"].overlap == 1
    heads = {one.head: one.scores for one in result.heads}
    assert heads["L0H1"]["matched_after"] > 0.8 > 0.5 > heads["L0H1"]["matched_before"]
    assert heads["L0H0"]["cosine"] == pytest.approx(1)
    (backwards,) = asked(context(planted[1.0], planted[0.05])).claims
    assert backwards.value == pytest.approx(-claim.value)


def test_the_claim_is_decided_by_its_side(
    planted: dict[float, Path], context: Callable[..., Context]
) -> None:
    """Twenty queries and more on validation: fifteen are too few."""
    every = [replace(pair, grades=(1 + row % 5,)) for row, pair in PLACED]
    split = Split(every, every, 0)
    for models, verdict in (((0.05, 1.0), "reproduced"), ((1.0, 0.05), "not reproduced")):
        made = context(*(planted[one] for one in models))
        made.read_pairs = lambda labels: split
        assert [one.verdict for one in asked(made).claims] == [verdict]


@pytest.mark.parametrize(
    ("family", "labels", "layers"), [("bert", 3, 4), ("xlm-roberta", 1, 2), ("electra", 5, 1)]
)
def test_any_model_any_file(
    checkpoint_of: Build,
    context: Callable[..., Context],
    tmp_path: Path,
    family: str,
    labels: int,
    layers: int,
) -> None:
    folders = [checkpoint_of(family, labels=labels, layers=layers, seed=seed) for seed in (1, 2)]
    result = asked(context(*folders))
    assert len(result.heads) == 2 * layers
    found = values(result)
    assert found["all_cls"] is not None
    assert (found["last_layers"] is not None) == (layers > 2)
    path = tmp_path / "shift.json"
    result.write(path)
    assert ProbeResult.read(path).summary == result.summary


def test_texts_without_a_match_are_not_judged(
    random_pair: tuple[Path, Path], context: Callable[..., Context], tmp_path: Path
) -> None:
    path = tmp_path / "english.tsv"
    rows = "".join(f"query {i}\tsome title\t{1 + i % 5}\n" for i in range(12))
    path.write_text(f"query\ttitle\tgrade\n{rows}", encoding="utf-8")
    made = context(*random_pair, made=False)
    made.files = PairFiles(pairs=path)
    result = asked(made)
    assert result.sets == {"matching_before": (), "strengthened": ()}
    (claim,) = result.claims
    assert (claim.verdict, claim.reason) == ("not testable", "unnamed")
    assert values(result)["matched_before"] is None and values(result)["all_cls"] is not None
    assert [one.name for one in result.figures] == ["change_matched"]


def test_the_last_layers_by_hand() -> None:
    """Cosines of four layers; a head that is gone does not count."""
    likeness = np.ones((3, 4, 2, len(LIKENESS)))
    likeness[:, :, :, 0] = np.array([0.9, 0.8, 0.5, 0.3])[:, None]
    likeness[:, 3, 1, 0] = 0.0
    weights = np.zeros((3, 4, 2, len(WEIGHTS)))
    pairs = [pair for _, pair in PLACED[:3]]
    seen = Comparison(pairs, 3, weights, weights, likeness)
    absent = Shape(4, 2, frozenset({(3, 1)}))
    assert _last_layers(seen, absent).value == pytest.approx(0.4 - 0.85)
    assert _last_layers(seen, Shape(4, 2)).value == pytest.approx((0.5 + 0.15) / 2 - 0.85)


def test_a_second_seed_stands_beside_the_base(
    planted: dict[float, Path], context: Callable[..., Context]
) -> None:
    result = asked(context(planted[0.0], planted[1.0], second=planted[0.05]))
    found = values(result)
    assert found["cosine"] < found["cosine_second_seed"] < 1
    changed, alike = ({one.head: one.scores for one in result.heads}[head] for head in HEADS)
    assert changed["cosine"] < changed["cosine_second_seed"] < 0.99
    assert changed["js_distance"] > changed["js_distance_second_seed"] > 0.01
    assert alike["cosine_second_seed"] == pytest.approx(1)
    assert result.settings["second"]["name"] == planted[0.05].name
    without = asked(context(planted[0.0], planted[1.0]))
    assert without.settings["second"] is None
    assert "cosine_second_seed" not in values(without)


def test_what_is_no_second_seed_is_refused(
    random_pair: tuple[Path, Path], checkpoint_of: Build, context: Callable[..., Context]
) -> None:
    with pytest.raises(CheckpointError, match="--second"):
        asked(context(*random_pair, second=random_pair[1]))
    with pytest.raises(CheckpointError, match="number of layers.*--second"):
        asked(context(*random_pair, second=checkpoint_of(layers=3)))


def test_what_is_no_base_is_refused(checkpoint_of: Build, context: Callable[..., Context]) -> None:
    with pytest.raises(ArgumentError, match="--base"):
        asked(context(None, checkpoint_of()))
    with pytest.raises(CheckpointError, match="number of layers"):
        asked(context(checkpoint_of(layers=3), checkpoint_of()))


@pytest.mark.slow
def test_random_models_have_no_strengthened_heads(tmp_path: Path, checkpoint_of: Build) -> None:
    named = 0
    for seed in range(20):
        folders = [
            planted_shift.untrained(checkpoint_of(), tmp_path / f"{seed}-{which}", 2 * seed + which)
            for which in (0, 1)
        ]
        named += bool(strengthened(compared(*folders)).heads())
    assert named <= 2
