"""The probe of patches as a whole: a planted chain of two heads, identities, odd models and inputs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qt_bert.ablation.patching import single_patches
from qt_bert.encoder import open_checkpoint
from qt_bert.encoder.checkpoint import smaller_checkpoint
from qt_bert.errors import ArgumentError, GuardError
from qt_bert.planning.saving import save_smaller
from qt_bert.probes.context import ProbeContext
from qt_bert.probes.patched import identities as proving
from qt_bert.probes.patched.classes import TokenClass
from qt_bert.probes.patched.passes import run
from qt_bert.probes.patched.twins import TwinMaker
from qt_bert.probes.probe import run_probe
from qt_bert.probes.registry import probe_named
from qt_bert.probes.split import PairFiles
from qt_bert.results import Finding, HeatMap, ProbeResult, Text
from qt_bert.results.kept import KeptLayer
from qt_bert.results.probe import ModelRef, PairsRef
from qt_bert.scoring.bulk import Scorer
from tests.conftest import FAMILIES, PAIRS
from tests.probes import planted_focus as planted

Build = Callable[..., ProbeContext]


def write(path: Path, rows: list[tuple[str, str, Any]]) -> Path:
    lines = [f"{query}\t{title}\t{grade}\n" for query, title, grade in rows]
    path.write_text("query\ttitle\tgrade\n" + "".join(lines), encoding="utf-8")
    return path


@pytest.fixture
def context(tmp_path: Path, pair_file: Path) -> Build:
    """A context around a model folder; the eight pairs are both halves unless others are given."""

    def build(model: Path, *, dtype: str = "float32", **changes: Any) -> ProbeContext:
        facts: dict[str, Any] = {
            "label": "patch",
            "files": PairFiles(pairs=pair_file, discovery=pair_file),
            "work": tmp_path / "sweeps",
            "open_model": lambda: Scorer(open_checkpoint(model, dtype=dtype)),
            "resamples": 100,
            "heads": "L0H0",
        }
        return ProbeContext(**(facts | changes))

    return build


@pytest.fixture(scope="module")
def planted_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return planted.plant(tmp_path_factory.mktemp("planted") / "model")


@pytest.fixture
def planted_context(context: Build, planted_model: Path, tmp_path: Path) -> Build:
    def build(**changes: Any) -> ProbeContext:
        halves = [
            write(
                tmp_path / f"{seed}.tsv",
                [(pair.query, pair.title, pair.label) for pair in planted.pairs(45, seed)],
            )
            for seed in (1, 2)
        ]
        files = PairFiles(pairs=halves[0], discovery=halves[1])
        return context(planted_model, files=files, **{"heads": planted.MATCHER} | changes)

    return build


def finding(result: ProbeResult, id: str) -> Finding:
    return next(one for one in result.findings if one.id == id)


def figure(result: ProbeResult, name: str) -> Any:
    return next(one for one in result.figures if one.name == name)


def score(result: ProbeResult, name: str) -> dict[str, float | None]:
    return {one.head: one.scores[name] for one in result.heads}


def test_two_heads_carry_the_match_and_no_other(planted_context: Build, tmp_path: Path) -> None:
    made = planted_context()
    result = run_probe(probe_named("patch"), made)
    restored = score(result, "restoring")
    assert restored.pop(planted.MATCHER) == pytest.approx(1, abs=1e-3)
    assert restored.pop(planted.READER) == pytest.approx(1, abs=1e-3)
    assert list(restored.values()) == pytest.approx([0] * 14, abs=1e-3)
    claim = finding(result, "patch_matching_restores")
    assert claim.value == pytest.approx(1, abs=1e-3) and claim.ci_low == pytest.approx(1, abs=1e-3)
    # There are three other sets of one head of its layer.
    assert claim.p == pytest.approx(1 / 4) and claim.verdict == "inconclusive"
    assert [one.id for one in result.findings if one.primary] == ["patch_matching_restores"]
    gap = finding(result, "patch_gap")
    assert gap.value is not None and gap.value > 1 and gap.unit == Text("档", "grades")
    assert [point.y for point in figure(result, "patch_layers").series[0].points] == pytest.approx(
        [1, 0, 1, 0], abs=1e-3
    )
    assert figure(result, "patch_heads").marked == ((0, planted.MATCHES),)
    assert result.sets == {"patch_matching": (planted.MATCHER,)}
    assert "restores 100 % [100, 100] of the gap" in result.summary.en
    assert "快速模式" in result.summary.zh and "--full" in result.summary.en
    checked = made.guards["patched"]
    assert max(checked["identities"].values()) <= checked["bound"]
    result.write(tmp_path / "patch.json")
    assert ProbeResult.read(tmp_path / "patch.json").findings == result.findings


def test_a_full_run_breaks_leaves_out_and_names(planted_context: Build) -> None:
    result = run_probe(probe_named("patch"), planted_context(full=True))
    both = {planted.MATCHER, planted.READER}
    for name in ("breaking", "left_out", "discovery", "left_out_discovery"):
        found = score(result, name)
        assert {head for head, one in found.items() if one and one > 0.5} == both
    assert set(result.sets["restoring"]) == set(result.sets["gap_left_out"]) == both
    assert result.sets["restoring_only"] == result.sets["gap_left_out_only"] == ()
    assert {one.head for one in result.heads if one.selected} == both
    assert result.stability["restoring"].sources[0].overlap == 1
    assert finding(result, "patch_matching_mask").value == pytest.approx(1, abs=1e-3)
    assert finding(result, "patch_matching_breaks").value == pytest.approx(1, abs=1e-3)
    labels = {mark.label for mark in figure(result, "patch_against_leaving_out").points}
    assert labels == {None, *both}
    assert result.summary.zh.count("快速模式") == 0


def test_the_match_moves_from_the_slot_to_the_first_token(planted_context: Build) -> None:
    result = run_probe(probe_named("patch"), planted_context(full=True))
    classes, states = (figure(result, f"patch_{name}") for name in ("classes", "states"))
    assert isinstance(classes, HeatMap) and isinstance(states, HeatMap)
    # The matcher marks the term in either text, and one mark is enough for the reader.
    marked = {TokenClass.TERM: 1, TokenClass.SLOT: 1}
    read = {TokenClass.CLS: 1}
    expected = {
        "L0": marked,
        "L1": {},
        "L2": read,
        "L3": {},
        "r0": {TokenClass.SLOT: 1},
        "r1": marked,
        "r2": marked,
        "r3": read,
        "r4": read,
    }
    got = dict(zip((*classes.rows, *states.rows), (*classes.values, *states.values), strict=True))
    for row, held in expected.items():
        assert got[row] == pytest.approx([held.get(kind, 0) for kind in TokenClass], abs=1e-3), row


def test_heads_that_are_not_named_are_said_to_be(planted_context: Build) -> None:
    def find(name: str) -> ProbeResult:
        assert name == "matching"
        return ProbeResult(
            probe=name,
            model=ModelRef(name="m", sha256=""),
            pairs=PairsRef(name="p", sha256=""),
            settings={},
            summary=Text("", ""),
            sets={"matching": (planted.MATCHER,), "named": ()},
        )

    result = run_probe(probe_named("patch"), planted_context(heads=None, find=find))
    said = [finding(result, "patch_matching_restores").claim, result.summary]
    said += [one.note for one in result.figures]
    assert all("heads not named" in one.en and "未被命名的头" in one.zh for one in said)
    assert result.settings["heads"]["named"] is False


@pytest.mark.parametrize("family", FAMILIES)
def test_identities_hold_for_every_family(
    context: Build, checkpoint_of: Callable[..., Path], family: str
) -> None:
    made = context(checkpoint_of(family, layers=3))
    twins = TwinMaker.of(made).make(made.validation)
    assert len(twins.twins) > 3
    found = proving.identities(made.model.encoder, twins.texts, made.model.pad)
    assert len(found) == 3 and max(found.values()) < 1e-5
    own = run(made, twins, single_patches(made.model.checkpoint.shape))
    assert np.abs(own.restoring(single_patches(made.model.checkpoint.shape))).max() > 1e-4


def test_a_broken_identity_stops_the_run(
    context: Build, checkpoint_of: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proving, "identities", lambda *_: {"a pair patched with itself": 0.5})
    with pytest.raises(GuardError, match=r"a pair patched with itself: the logits are off by 0\.5"):
        run_probe(probe_named("patch"), context(checkpoint_of()))


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize(
    ("family", "options", "dtype"),
    [
        ("bert", {"layers": 1, "heads": 1}, "float32"),
        ("electra", {"labels": 1}, "float32"),
        ("roberta", {"labels": 3}, "bfloat16"),
        ("xlm-roberta", {}, "float32"),
    ],
)
def test_any_model_goes_through(
    context: Build,
    checkpoint_of: Callable[..., Path],
    tmp_path: Path,
    family: str,
    options: dict[str, int],
    dtype: str,
    full: bool,
) -> None:
    labels = {3: [0, 0, 2, 1, 2, 1, 0, 1], 1: [1, 0, 1, 0, 1, 0, 1, 0]}
    grades = labels.get(options.get("labels", 5), [grade for *_, grade in PAIRS])
    rows = [(query, title, grade) for (query, title, _), grade in zip(PAIRS, grades, strict=True)]
    path = write(tmp_path / "some.tsv", rows)
    files = PairFiles(pairs=path, discovery=path)
    folder = checkpoint_of(family, **options)
    result = run_probe(probe_named("patch"), context(folder, files=files, full=full, dtype=dtype))
    result.write(tmp_path / "patch.json")
    assert ProbeResult.read(tmp_path / "patch.json").summary == result.summary
    assert "nan" not in result.summary.en + result.summary.zh
    one_logit = options.get("labels") == 1
    assert (result.settings["gap"]["pairs_under_0.05"] is None) == one_logit
    units = {1: Text("分", "score"), 3: Text("级", "levels"), 5: Text("档", "grades")}
    assert finding(result, "patch_gap").unit == units[options.get("labels", 5)]
    if options.get("heads") == 1:  # the set is the whole layer: nothing to compare with
        claim = finding(result, "patch_matching_restores")
        assert claim.value is None and claim.p is None and claim.verdict == "inconclusive"


def test_pruned_heads_take_no_part(
    context: Build, checkpoint_of: Callable[..., Path], tmp_path: Path
) -> None:
    whole = open_checkpoint(checkpoint_of(layers=3, heads=4, hidden=32))
    kept = tuple(KeptLayer(layer=n, heads=h) for n, h in enumerate([(1, 3), (), (0,)]))
    folder = save_smaller(tmp_path / "small", smaller_checkpoint(whole, kept))
    result = run_probe(probe_named("patch"), context(folder, heads="L0H1", full=True))
    assert [one.head for one in result.heads] == ["L0H1", "L0H3", "L2H0"]
    with pytest.raises(ArgumentError, match="pruned"):
        run_probe(probe_named("patch"), context(folder, heads="L1H0"))


def test_texts_that_share_nothing(
    context: Build, checkpoint_of: Callable[..., Path], tmp_path: Path
) -> None:
    path = write(tmp_path / "none.tsv", [("cat", "dog", 1), ("苹果", "北京", 2), ("猫", "狗", 3)])
    files = PairFiles(pairs=path, discovery=path)
    result = run_probe(probe_named("patch"), context(checkpoint_of(), files=files))
    assert result.findings == () and result.figures == ()
    assert "No pair to patch" in result.summary.en and "没有可以做补丁的样本" in result.summary.zh


def test_quick_takes_few_pairs_of_many_queries(
    context: Build, checkpoint_of: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qt_bert.probes.patched.twins.PAIRS", 3)
    made = context(checkpoint_of())
    sampled = TwinMaker.of(made).sample(made.validation, made)
    assert len(sampled.queries) == len(set(sampled.queries)) == 3
    made.full = True
    every = TwinMaker.of(made).sample(made.validation, made)
    assert len(every.queries) == len(set(every.queries)) > 3


def test_quick_takes_some_of_the_pairs_for_heads_one_by_one(
    planted_context: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qt_bert.probes.patched.study.QUICK_EACH", 12)
    result = run_probe(probe_named("patch"), planted_context())
    claim = finding(result, "patch_matching_restores")
    assert claim.n_queries == result.settings["twins"]["validation"]["queries"] > 12
    assert result.settings["one_by_one"] == {"pairs": 12, "queries": 12}
    bases = {one.name: one.note.en for one in result.figures}
    assert "Base: 12 pairs of 12 queries." in bases["patch_heads"]
    assert f"Base: {claim.n_queries} pairs" in bases["patch_set"]
    assert "on 12 pairs, the largest of 16" in result.summary.en
    full = run_probe(probe_named("patch"), planted_context(full=True))
    assert full.settings["one_by_one"]["queries"] == claim.n_queries
