"""The behaviour card end to end: any model, one logit, few cases, heads chosen and tested."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qt_bert.data.splits import half_of
from qt_bert.errors import PairFileError
from qt_bert.figures import Bars, Curve, HeatMap
from qt_bert.models.checkpoint import open_checkpoint, smaller_checkpoint
from qt_bert.planning.prune import save_smaller
from qt_bert.probes.base import Context, run_probe
from qt_bert.probes.behaviour.reading import COLUMNS
from qt_bert.probes.registry import probe_named
from qt_bert.probes.split import PairFiles
from qt_bert.results.head_sets import set_words
from qt_bert.results.kept import KeptLayer
from qt_bert.results.probe import ProbeResult
from qt_bert.scoring.bulk import Scorer
from qt_bert.scoring.judge import read_outputs
from tests.probes.judged import outcome


@pytest.fixture
def cases(tmp_path: Path) -> Path:
    """Two phenomena of sixteen cases, and a case of a team's own in either half: first discovery."""
    rows = [
        "own-1\tfruit\tbetter\t苹果多少钱一斤\t苹果一斤多少钱\t苹果手机多少钱",
        "own-2\tpear\tbetter\t梨多少钱一斤\t一斤梨多少钱\t梨多少钱一台",
    ]
    for n in range(16):
        query = f"北京到上海{n}高铁票价"
        rows.append(f"d{n}\tdirection\tbetter\t{query}\t{query}查询\t上海到北京{n}高铁票价查询")
        rows.append(f"s{n}\tfiller\talike\t红烧排骨{n}做法\t红烧排骨{n}的做法\t红烧排骨{n}家常做法")
    path = tmp_path / "cases.tsv"
    path.write_text("\n".join(["\t".join(COLUMNS), *rows]) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def context(tmp_path: Path, pair_file: Path, cases: Path) -> Callable[..., Context]:
    def build(model: Path, **changes: Any) -> Context:
        facts: dict[str, Any] = {
            "label": "behaviour",
            "files": PairFiles(pairs=pair_file),
            "work": tmp_path / "sweeps",
            "open_model": lambda: Scorer(open_checkpoint(model)),
            "resamples": 100,
            "cases": cases,
        }
        return Context(**(facts | changes))

    return build


def run(context: Context) -> ProbeResult:
    return run_probe(probe_named("behaviour"), context)


@pytest.mark.parametrize(
    ("family", "options"),
    [
        ("bert", {}),
        ("electra", {"labels": 1, "layers": 1}),
        ("roberta", {"labels": 3}),
        ("xlm-roberta", {}),
    ],
)
def test_any_model_goes_through(
    context: Callable[..., Context],
    checkpoint_of: Callable[..., Path],
    family: str,
    options: dict[str, int],
) -> None:
    result = run(context(checkpoint_of(family, **options)))
    primary = {one.id for one in result.findings if one.primary}
    assert primary == {"behaviour.direction", "behaviour.pear"}
    figures = {one.name: one for one in result.figures}
    assert {"scores_better", "scores_alike", "mean_difference", "outcomes", "carried"} <= set(
        figures
    )
    layers = figures["carried"]
    assert isinstance(layers, HeatMap)
    assert layers.rows == tuple(f"L{n}" for n in range(options.get("layers", 2)))
    assert layers.note is not None and "A quick run maps layers" in layers.note.en
    assert result.sets == {} and result.heads == ()
    assert result.settings["cases"]["in_all"] == 34
    assert result.pairs.name == "cases.tsv"
    assert result.settings["band"]["value"] == {5: 0.25, 3: 0.125}.get(
        options.get("labels", 5), result.settings["band"]["value"]
    )
    least = result.settings["heads_left_out"]["least_change"]
    assert least == pytest.approx(result.settings["band"]["value"] / 5)
    json.dumps(result.to_json(), allow_nan=False)


def test_scores_are_those_of_the_model(
    context: Callable[..., Context], checkpoint_of: Callable[..., Path]
) -> None:
    """The card's mean difference is that of plain expected grades."""
    made = context(checkpoint_of())
    result = run(made)
    listed = [line.split("\t") for line in made.cases.read_text().splitlines()[1:]]  # type: ignore[union-attr]
    own = [c for c in listed if c[1] == "direction" and half_of(c[3]) == "validation"]
    labels = made.model.checkpoint.settings.labels
    title, other = (
        read_outputs(made.model.logits([(c[3], c[n]) for c in own]), labels).ranking_score
        for n in (4, 5)
    )
    bars = next(one for one in result.figures if one.name == "mean_difference")
    assert isinstance(bars, Bars)
    place = [name.en for name in bars.categories].index("direction swapped")  # type: ignore[union-attr]
    assert bars.series[0].values[place] == pytest.approx(float((title - other).mean()), abs=1e-5)
    curve = next(one for one in result.figures if one.name == "bands")
    assert isinstance(curve, Curve)
    assert [point.x for point in curve.series[0].points][-1] == 1.0
    validation = result.settings["phenomena"]["direction"][0]
    assert (validation["half"], validation["cases"]) == ("validation", len(own))
    assert validation["score_q"] is None and validation["mean_difference_q"] is not None
    alike = result.settings["phenomena"]["filler"][0]
    assert alike["score_q"] == alike["score_p"]  # the one phenomenon of its relation
    (score,) = (one for one in result.findings if one.id == "behaviour.direction")
    assert score.value == (validation["right"] - validation["wrong"]) / len(own)


def test_a_phenomenon_of_one_query_has_no_interval(
    context: Callable[..., Context], checkpoint_of: Callable[..., Path]
) -> None:
    result = run(context(checkpoint_of()))
    found = result.settings["phenomena"]
    for name, half in (("fruit", "discovery"), ("pear", "validation")):
        assert [(one["half"], one["score_interval"]) for one in found[name]] == [(half, None)]
    (pear,) = (one for one in result.findings if one.id == "behaviour.pear")
    assert pear.primary and outcome(pear) == "inconclusive" and pear.ci_low is None
    assert "behaviour.fruit" not in {one.id for one in result.findings}


def test_chosen_heads_meet_others_of_their_layers(
    context: Callable[..., Context],
    checkpoint_of: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("qt_bert.probes.behaviour.carried.FALSE_DISCOVERY_RATE", 1.1)
    monkeypatch.setattr("qt_bert.probes.behaviour.carried.LEAST_OF_BAND", 0.0)
    monkeypatch.setattr("qt_bert.probes.behaviour.carried.MOST", 1)
    result = run(context(checkpoint_of(heads=4), full=True))
    assert len(result.heads) == 8
    assert all({"direction", "filler"} <= set(one.scores) for one in result.heads)
    assert result.sets and all(len(heads) == 1 for heads in result.sets.values())
    tested = [one for one in result.findings if one.id.split(".")[1] in result.sets]
    assert len(tested) == len(result.sets)
    for one in tested:
        assert not one.primary and one.p in (0.25, 0.5, 0.75, 1.0)  # three others of its layer
        assert one.side == ("below" if one.id.startswith("behaviour.carries") else "above")
    assert all(count == 3 for count in result.settings["heads_left_out"]["draws"].values())
    assert set(result.stability) == set(result.sets)
    assert {"discovery", "validation"} <= set(result.settings["guards"])
    drawn = next(one for one in result.figures if one.name == "chosen_heads")
    assert isinstance(drawn, HeatMap)
    assert set(drawn.rows) == {head for heads in result.sets.values() for head in heads}
    assert drawn.note is not None and "of validation, " in drawn.note.en
    shaky = {name for name, one in result.stability.items() if one.verdict == "not stable"}
    assert ("Not stable: " in drawn.note.en) == bool(shaky)
    assert "heads that" in set_words(next(iter(result.sets))).name.en


def test_a_pruned_model_is_asked_of_the_heads_it_has(
    context: Callable[..., Context],
    checkpoint_of: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("qt_bert.probes.behaviour.carried.FALSE_DISCOVERY_RATE", 1.1)
    monkeypatch.setattr("qt_bert.probes.behaviour.carried.LEAST_OF_BAND", 0.0)
    kept = tuple(KeptLayer(layer=number, heads=(0, 2, 3)) for number in range(2))
    small = smaller_checkpoint(open_checkpoint(checkpoint_of(heads=4)), kept)
    result = run(context(save_smaller(tmp_path / "small", small), full=True))
    there = [f"L{layer}H{head}" for layer in (0, 1) for head in (0, 2, 3)]
    assert [one.head for one in result.heads] == there
    assert result.sets and {head for heads in result.sets.values() for head in heads} <= set(there)
    assert set(result.stability) == set(result.sets)


def test_one_logit_takes_the_band_from_its_own_rankings(
    context: Callable[..., Context], checkpoint_of: Callable[..., Path], tmp_path: Path
) -> None:
    model = checkpoint_of("bert", labels=1)
    lone = tmp_path / "lone.tsv"
    lone.write_text("query\ttitle\tgrade\n狗追猫\t猫追狗\t2\n苹果\t苹果手机\t3\n", encoding="utf-8")
    with pytest.raises(PairFileError, match=r"lone.tsv: no query of two titles"):
        run(context(model, band_from=lone))
    own = tmp_path / "own.tsv"
    titles = ("苹果", "苹果手机", "红烧排骨")
    rows = "".join(f"苹果\t{title}\n" for title in titles)
    own.write_text("query\ttitle\n" + rows, encoding="utf-8")
    made = context(model, band_from=own)
    logits = sorted(float(one) for one in made.model.logits([("苹果", t) for t in titles])[:, 0])
    band = run(made).settings["band"]
    half = (logits[2] - logits[0]) / 2
    assert (band["value"], band["gaps"]) == (pytest.approx(half, abs=1e-6), 2)
    graded = run(context(checkpoint_of(), band_from=own, work=tmp_path / "graded"))
    assert graded.settings["band"]["band_from"] == "not used: it has grades"


def test_one_logit_without_rankings_says_so(
    context: Callable[..., Context], checkpoint_of: Callable[..., Path], tmp_path: Path
) -> None:
    pairs = tmp_path / "single.tsv"
    rows = "".join(f"苹果{n}\t苹果手机\t{1 + n % 5}\n" for n in range(12))
    pairs.write_text("query\ttitle\tgrade\n" + rows, encoding="utf-8")
    result = run(context(checkpoint_of("bert", labels=1), files=PairFiles(pairs=pairs)))
    assert result.findings == () and "--band-from" in result.summary.en
