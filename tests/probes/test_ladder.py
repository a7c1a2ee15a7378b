"""Texts cut apart layer by layer: planted layers, values by hand, offline and odd models."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from qt_bert.data.pairs import Pair
from qt_bert.models.checkpoint import open_checkpoint, smaller_checkpoint
from qt_bert.models.heads import Shape
from qt_bert.planning.prune import save_smaller
from qt_bert.probes import ladder
from qt_bert.probes.base import Context, run_probe
from qt_bert.probes.registry import probe_named
from qt_bert.probes.split import PairFiles, Split
from qt_bert.results.kept import KeptLayer
from qt_bert.results.probe import Measurement, ProbeResult, SourcedClaim
from qt_bert.scoring.bulk import Scorer
from qt_bert.stats.estimate import over_queries
from tests.conftest import PAIRS
from tests.probes.matching_found import matching_found
from tests.wired import WORDS, wired_checkpoint

Build = Callable[..., Context]
TEXTS = [(query, title) for query, title, _ in PAIRS]


@pytest.fixture
def context(tmp_path: Path, pair_file: Path) -> Build:
    """A context around a model and pairs, which are discovery and validation alike."""

    def build(model: Path, pairs: list[Pair], **facts: Any) -> Context:
        made: dict[str, Any] = {
            "label": "ladder",
            "files": PairFiles(pairs=pair_file),
            "read_pairs": lambda labels: Split(pairs, pairs, 0),
            "work": tmp_path / "sweeps",
            "open_model": lambda: Scorer(open_checkpoint(model)),
            "resamples": 200,
            "find": matching_found(open_checkpoint(model).shape, ("L0H0",), ("L0H0",)),
        }
        return Context(**(made | facts))

    return build


def run(context: Context) -> ProbeResult:
    return run_probe(probe_named("ladder"), context)


def measured(result: ProbeResult) -> dict[str, Measurement]:
    return {one.id: one for one in result.measurements}


def claim(result: ProbeResult) -> SourcedClaim:
    (found,) = result.claims
    assert found.id == "ladder.low"
    return found


def numbered(texts: list[tuple[str, str]], sets: list[tuple[int, ...]]) -> list[Pair]:
    return [
        Pair(query, title, grades, str(i), i + 1, "", {})
        for i, ((query, title), grades) in enumerate(zip(texts, sets, strict=True))
    ]


def graded(count: int) -> list[Pair]:
    """The tiny pairs with the grades 1 to 5 in turn; every query has one title."""
    texts = [(f"{q}{i}", f"{t}{i % 7}") for i in range(count) for q, t in [TEXTS[i % len(TEXTS)]]]
    return numbered(texts, [(1 + i % 5,) for i in range(count)])


def texts_of(count: int) -> list[tuple[str, str]]:
    """Queries of three words with one, two or none of them in the title."""
    rng = np.random.default_rng(0)
    found = []
    for number in range(count):
        words, shared = [WORDS[i] for i in rng.permutation(len(WORDS))], number % 3
        found.append((" ".join(words[:3]), " ".join(words[3 : 6 - shared] + words[:shared])))
    return found


def as_the_model_says(model: Path, texts: list[tuple[str, str]]) -> list[Pair]:
    """Pairs labelled by the model's own likeliest grade, so that uncut it makes no mistake."""
    said = Scorer(open_checkpoint(model)).logits(texts).argmax(axis=1)
    return numbered(texts, [(int(one) + 1,) for one in said])


@pytest.fixture(scope="module")
def matches_low(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three layers, of which L0 matches the texts."""
    return wired_checkpoint(tmp_path_factory.mktemp("wired") / "model")


@pytest.fixture(scope="module")
def matches_in_the_middle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The heads of L0 give nothing, L1 matches the texts, L2 reads what is marked."""
    from transformers import BertForSequenceClassification

    folder = wired_checkpoint(tmp_path_factory.mktemp("wired") / "model")
    model = BertForSequenceClassification.from_pretrained(folder)
    first, second, _ = (layer.attention for layer in model.bert.encoder.layer)
    with torch.no_grad():
        second.load_state_dict(first.state_dict())
        for part in (first.self.query, first.self.key, first.self.value, first.output.dense):
            part.weight.zero_()
            part.bias.zero_()
    model.save_pretrained(folder)
    return folder


def test_lower_layers_that_never_mix_the_texts_are_free(
    matches_in_the_middle: Path, context: Build
) -> None:
    pairs = as_the_model_says(matches_in_the_middle, texts_of(60))
    assert {pair.grades for pair in pairs} == {(1,), (5,)}
    asked = matching_found(Shape(3, 4), ("L1H1",), ("L1H1",))
    result = run(context(matches_in_the_middle, pairs, find=asked))
    assert result.settings["first_layer"] == {
        "discovery": 1,
        "validation": 1,
        "layers": 3,
        "confirmed": True,
        "bar": 2.0,
    }
    # With its own text alone to see each character matches itself, so that every pair gets grade 5.
    wrong = 100 * sum(pair.grades == (1,) for pair in pairs) / len(pairs)
    found = measured(result)
    assert found["ladder_all_accuracy"].value == pytest.approx(wrong)
    assert found["low_half"].value == pytest.approx(0, abs=1e-3)
    assert found["first_layer_loss"].value > 2 and found["high_half"].value > 2
    assert claim(result).verdict == "not reproduced"


def test_texts_that_meet_in_the_low_half(matches_low: Path, context: Build) -> None:
    pairs = as_the_model_says(matches_low, texts_of(60))
    result = run(context(matches_low, pairs))
    assert result.settings["first_layer"]["discovery"] == 0
    found = measured(result)
    assert claim(result).verdict == "reproduced" and claim(result).margin == 2
    assert claim(result).value == pytest.approx(found["low_half"].value - found["high_half"].value)
    assert claim(result).n_queries == len(pairs)


def test_the_block_of_an_offline_model_is_the_floor(
    checkpoint_of: Callable[..., Path], context: Build, tmp_path: Path
) -> None:
    folder = offline(checkpoint_of(layers=4, seed=3), tmp_path / "offline", layers=2)
    result = run(context(folder, graded(60)))
    assert result.settings["offline_layers"] == 2
    assert result.settings["first_layer"]["discovery"] >= 2
    assert measured(result)["low_half"].value == 0
    # Cuts that change nothing below the block: the high half alone is the whole ladder.
    ends = [series.points for series in result.figures[0].series if not series.dashed]
    assert [point.y for points in ends for point in points[:3]] == [0] * 6
    assert measured(result)["high_half"].value == pytest.approx(ends[1][-1].y, abs=1e-4)


def offline(model: Path, folder: Path, layers: int) -> Path:
    """The checkpoint as an offline model."""
    folder.mkdir()
    for file in model.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    block = {"layers": layers, "title_start": 24, "title_tokens": 30}
    card = {"schema": 1, "grades": [[1], [2], [3], [4], [5]], "max_length": 64, "offline": block}
    (folder / "qt_bert.json").write_text(json.dumps(card), encoding="utf-8")
    return folder


def test_a_model_that_looks_at_one_text_alone_must_see_both_nowhere(
    checkpoint_of: Callable[..., Path], context: Build, tmp_path: Path
) -> None:
    """No head gives anything, so the grade is that of [CLS] alone: no rung costs anything."""
    from transformers import BertForSequenceClassification

    folder = tmp_path / "silent"
    folder.mkdir()
    model = BertForSequenceClassification.from_pretrained(checkpoint_of(seed=5))
    with torch.no_grad():
        for layer in model.bert.encoder.layer:
            layer.attention.output.dense.weight.zero_()
    for file in checkpoint_of(seed=5).iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    model.save_pretrained(folder)
    result = run(context(folder, graded(30)))
    found = measured(result)
    assert result.settings["first_layer"]["discovery"] == 2
    assert found["first_layer_loss"].value is None
    assert found["ladder_half_way"].value is None and found["ladder_step"].value is None
    assert claim(result).verdict == "not testable"


@pytest.mark.parametrize(
    ("family", "options", "full"),
    [
        ("bert", {"labels": 3, "layers": 4}, False),
        ("xlm-roberta", {"labels": 1, "layers": 3}, True),
        ("electra", {"layers": 1}, True),
        ("roberta", {"layers": 5, "heads": 1}, False),
    ],
)
def test_any_random_model_has_a_ladder_and_no_claim(
    checkpoint_of: Callable[..., Path],
    context: Build,
    tmp_path: Path,
    family: str,
    options: dict[str, int],
    full: bool,
) -> None:
    labels, layers = options.get("labels", 5), options.get("layers", 2)
    texts = [(f"{TEXTS[i % 8][0]}{i}", f"{TEXTS[i % 8][1]}{i}") for i in range(24)]
    pairs = numbered(texts, [(1 + i % max(labels, 2),) for i in range(24)])
    result = run(context(checkpoint_of(family, **options), pairs, full=full))
    assert [len(series.points) for series in result.figures[0].series] == [layers + 1] * 2 + [2]
    assert claim(result).reason == ("one_layer" if layers == 1 else "grades_nothing")
    found = measured(result)
    assert (found["ladder_all_accuracy"].value is None) == (labels == 1)
    assert (found["low_half"].value is None) == (layers == 1)
    assert result.heads == () and result.sets == {}
    result.write(tmp_path / "ladder.json")
    assert ProbeResult.read(tmp_path / "ladder.json").figures == result.figures


def test_values_by_hand(checkpoint_of: Callable[..., Path], context: Build) -> None:
    """The changes of ρ, against SciPy on the logits of the stored sweep."""
    made = context(checkpoint_of(layers=4, seed=3), graded(40))
    found = measured(run(made))
    folder = made.work / "validation"
    logits = np.load(folder / "logits.npy").astype(float)
    names = [line.split(",")[0] for line in (folder / "variants.csv").read_text().splitlines()[1:]]
    grades = np.arange(40) % 5 + 1

    def rho(name: str) -> float:
        shares = np.exp(logits[names.index(name)])
        shares /= shares.sum(1, keepdims=True)
        return float(spearmanr(shares @ np.arange(1, 6), grades).statistic)

    changes = {one: rho(f"cut:{one}@0-3") - rho("none") for one in ("all", "C<T", "T<Q", "Q<T")}
    assert found["ladder_all_spearman"].value == pytest.approx(-changes["all"])
    assert found["ladder_cls"].value == pytest.approx(changes["C<T"])
    assert found["ladder_direction"].value == pytest.approx(changes["T<Q"] - changes["Q<T"])


def test_one_query_and_texts_that_share_nothing(
    checkpoint_of: Callable[..., Path], context: Build
) -> None:
    pairs = numbered([("a b", f"c d{i}") for i in range(6)], [(1 + i % 5,) for i in range(6)])
    none = matching_found(Shape(2, 2), scored=False)
    result = run(context(checkpoint_of(), pairs, find=none))
    assert result.settings["first_layer"]["discovery"] == 0  # without an interval nothing is shown
    assert result.settings["matching_heads"] is None
    assert measured(result)["ladder_step"].value is None
    assert claim(result).verdict == "not testable"


def test_a_pruned_model_is_asked_like_any(
    checkpoint_of: Callable[..., Path], context: Build, tmp_path: Path
) -> None:
    kept = tuple(KeptLayer(layer=number, heads=(0, 2)) for number in range(2))
    small = smaller_checkpoint(open_checkpoint(checkpoint_of(heads=4, seed=3)), kept)
    result = run(context(save_smaller(tmp_path / "small", small), graded(12)))
    assert result.settings["first_layer"]["layers"] == 2


def test_a_run_goes_on_where_it_stopped_and_the_seed_fixes_it(
    checkpoint_of: Callable[..., Path], context: Build, tmp_path: Path
) -> None:
    pairs = graded(12)
    first = run(context(checkpoint_of(), pairs))
    assert run(context(checkpoint_of(), pairs)) == first
    anew = run(context(checkpoint_of(), pairs, work=tmp_path / "anew"))
    assert (anew.claims, anew.measurements) == (first.claims, first.measurements)


def test_a_quick_run_samples_rungs_and_claims_on_all_pairs(
    checkpoint_of: Callable[..., Path], context: Build
) -> None:
    made = context(checkpoint_of(), graded(200))
    result = run(made)
    assert result.facts["chosen_on"] == 64 and result.pairs.n_pairs == 128
    rows = np.load(made.work / "halves" / "logits.npy").shape
    assert rows == (3, 200, 5) and measured(result)["low_half"].n_queries == 200


@pytest.mark.parametrize(
    ("losses", "free"),
    [
        ([0, 0, 50, 50], 2),
        ([50, 0, 0, 0], 0),
        ([0, 50, 0, 0], 1),  # what is free above a rung that loses does not count
        ([0, 0, 0, 0], 4),
        ([1.9, 0, 0, 0], 0),  # its interval reaches above two points
    ],
)
def test_rungs_are_free_while_their_interval_ends_below_two_points(
    losses: list[float], free: int, checkpoint_of: Callable[..., Path], context: Build
) -> None:
    spread = np.linspace(-1, 1, 100)
    queries = [f"q{number}" for number in range(100)]
    made = [over_queries(loss * (1 + spread), queries) for loss in losses]
    assert ladder.free_rungs(made, context(checkpoint_of(), [])) == free
    alone = [over_queries([0.0], ["q"])]
    assert ladder.free_rungs(alone, context(checkpoint_of(), [])) == 0


@pytest.mark.parametrize(
    ("losses", "layer"),
    [([0, 8, 8, 8], 1), ([2, 4, 6, 8], 1), ([0, 0, 0, 8], 3), ([6, 2, 2, 8], 0)],
)
def test_half_way_by_hand(losses: list[float], layer: int) -> None:
    assert ladder.half_way(np.array(losses, float)) == layer
