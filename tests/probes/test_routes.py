"""Routes to the grade: planted wiring, any model, what cannot be asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from qt_bert.data.pairs import Pair
from qt_bert.errors import ArgumentError
from qt_bert.models.checkpoint import open_checkpoint
from qt_bert.models.heads import Head
from qt_bert.probes.base import Context, run_probe
from qt_bert.probes.registry import probe_named
from qt_bert.probes.routes import study as study_module
from qt_bert.probes.routes.asked import Asked, asked
from qt_bert.probes.split import PairFiles
from qt_bert.results.probe import Finding, ModelRef, PairsRef, ProbeResult, Stability
from qt_bert.scoring.bulk import Scorer
from qt_bert.text import Text
from tests.conftest import PAIRS
from tests.wired import DIRECT, READER, RELAYED, wired_checkpoint, wired_pairs


def left(probe: str, **sets: Sequence[str]) -> ProbeResult:
    """What another probe left, as far as routes reads it."""
    return ProbeResult(
        probe=probe,
        model=ModelRef(name="m", sha256=""),
        pairs=PairsRef(name="p", sha256=""),
        settings={},
        summary=Text("", ""),
        sets={name: tuple(heads) for name, heads in sets.items()},
    )


READS = left("focus", reader=(str(READER),))
BOTH = f"{DIRECT} {RELAYED}"


@pytest.fixture(scope="module")
def wired(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wired_checkpoint(tmp_path_factory.mktemp("wired") / "model")


def write_pairs(path: Path, pairs: Sequence[Pair]) -> Path:
    lines = [f"{pair.query}\t{pair.title}\t{pair.label}\n" for pair in pairs]
    path.write_text("query\ttitle\tgrade\n" + "".join(lines), encoding="utf-8")
    return path


@pytest.fixture
def context(tmp_path: Path) -> Callable[..., Context]:
    """A context around a model and pairs, both halves the same, and what other probes left."""

    def build(
        model: Path, pairs: Path, found: Mapping[str, ProbeResult], **changes: Any
    ) -> Context:
        facts: dict[str, Any] = {
            "label": "routes",
            "files": PairFiles(pairs=pairs, discovery=pairs),
            "work": tmp_path / "sweeps",
            "open_model": lambda: Scorer(open_checkpoint(model)),
            "resamples": 200,
            "find": found.__getitem__,
        }
        return Context(**(facts | changes))

    return build


@pytest.fixture
def on_wired(
    context: Callable[..., Context], wired: Path, tmp_path: Path
) -> Callable[..., Context]:
    def build(heads: str | None, *found: ProbeResult, **changes: Any) -> Context:
        pairs = write_pairs(tmp_path / "pairs.tsv", wired_pairs(16))
        results = {one.probe: one for one in (READS, *found)}
        return context(wired, pairs, results, heads=heads, **changes)

    return build


def finding(result: ProbeResult, id: str) -> Finding:
    return next(one for one in result.findings if one.id == id)


def test_the_head_that_is_read_directly(on_wired: Callable[..., Context]) -> None:
    result = run_probe(probe_named("routes"), on_wired(str(DIRECT)))
    claim = finding(result, "direct_share")
    assert claim.primary and claim.margin == 0 and claim.side == "above"
    assert claim.value is not None and claim.value >= 0.95
    assert claim.p == pytest.approx(1 / 4)  # three others of its layer, one of them relayed
    assert finding(result, "focus_share_k").value == pytest.approx(claim.value, abs=0.02)
    assert finding(result, "grade_share_qk").value >= 0.95
    assert abs(finding(result, "grade_share_v").value) <= 0.01
    assert [one.id for one in result.findings if one.primary] == ["direct_share"]
    assert f"({DIRECT}) to {READER}" in result.summary.en and "not named" not in result.summary.en
    graph = next(one for one in result.figures if one.name == "routes_focus")
    weights = {(edge.source, edge.target): edge.weight for edge in graph.edges}
    assert weights["M", "L2H0.k"] == weights["L2H0.k", "L2H0 [CLS]"] >= 0.95
    assert "M: the matching heads together (L0H1)" in graph.note.en
    assert result.heads == () and result.sets == {}
    assert "least p 0.250" in result.settings["resolution"]["en"]
    assert "A surplus under " in result.settings["resolution"]["en"]


def test_quick_asks_of_the_controls_what_the_claim_needs(
    on_wired: Callable[..., Context],
) -> None:
    result = run_probe(probe_named("routes"), on_wired(str(DIRECT)))
    assert all(one.id != "controls_own_share" for one in result.findings)
    drawn = next(one for one in result.figures if one.name == "shares_focus")
    of_set, of_controls = drawn.series
    assert None not in of_set.values
    assert [value is None for value in of_controls.values] == [True, True, False]


def test_the_head_that_is_relayed(on_wired: Callable[..., Context]) -> None:
    result = run_probe(probe_named("routes"), on_wired(str(RELAYED)))
    assert abs(finding(result, "focus_share_qk").value) <= 0.05
    assert abs(finding(result, "grade_share_qk").value) <= 0.05
    assert finding(result, "direct_share").value < -0.2  # one of three controls is read directly


def test_a_full_run_asks_every_head(
    on_wired: Callable[..., Context], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(study_module, "FULL_DRAWS", 3)
    result = run_probe(probe_named("routes"), on_wired(BOTH, full=True))
    scores = {one.head: one.scores for one in result.heads}
    assert scores[str(DIRECT)]["focus_share_k"] >= 0.95
    assert abs(scores[str(RELAYED)]["grade_share_qk"]) <= 0.05
    assert all(one.selected for one in result.heads)
    ids = {one.id for one in result.findings}
    assert {"focus_share_feed_forward", "focus_share_mean", "controls_own_share"} <= ids
    # No feed-forward block adds anything here: holding them changes nothing.
    held, free = (finding(result, f"focus_share_{one}").value for one in ("feed_forward", "qk"))
    assert held == pytest.approx(free, abs=1e-5)
    figures = {one.name: one for one in result.figures}
    assert figures["receivers_grade"].rows == ("L2H0", "L2H1", "L2H2", "L2H3")
    assert figures["senders_focus"].categories[:2] == (str(DIRECT), str(RELAYED))
    graph = figures["routes_grade"]
    assert len({(one.column, one.row) for one in graph.nodes}) == len(graph.nodes) == 6
    edges = {(one.source, one.target) for one in graph.edges}
    assert {("L0H1", "L2H0.k"), ("L0H2", "L2H0.v"), ("L2H0.q", "E[g]")} <= edges
    result.write(tmp_path / "routes.json")
    assert ProbeResult.read(tmp_path / "routes.json").figures == result.figures


def test_heads_that_passed_no_bar_are_called_so(on_wired: Callable[..., Context]) -> None:
    best = left("matching", matching=(str(DIRECT), str(RELAYED)), named=())
    result = run_probe(probe_named("routes"), on_wired(None, best))
    assert result.settings["senders"]["named"] is False
    assert "heads not named" in result.summary.en and "未被命名的头" in result.summary.zh
    assert result.figures
    assert all(one.note.en.startswith("Heads not named. ") for one in result.figures)
    assert all(one.note.zh.startswith("未被命名的头。") for one in result.figures)


def test_a_reader_that_is_not_stable_is_called_so(on_wired: Callable[..., Context]) -> None:
    found = Stability(
        overlap=0.44,
        low=0.0,
        high=1.0,
        halves=0.04,
        chance_mean=0.1,
        chance_95=1.0,
        k=1,
        n_queries=40,
        resamples=100,
        verdict="not stable",
    )
    shaky = replace(READS, stability={"reader": found})
    result = run_probe(probe_named("routes"), on_wired(str(DIRECT), shaky))
    assert "the reader is not stable" in result.summary.en and "阅读头不稳定" in result.summary.zh
    assert result.figures
    assert all(one.note.en.startswith("The reader is not stable") for one in result.figures)
    result = run_probe(probe_named("routes"), on_wired(str(DIRECT)))
    assert "not stable" not in result.summary.en


def test_any_upper_head_can_be_asked(on_wired: Callable[..., Context]) -> None:
    found = asked(on_wired(BOTH), [Head(1, 3)])
    assert isinstance(found, Asked) and found.reader == Head(1, 3)
    with pytest.raises(ArgumentError, match="name heads of one layer"):
        asked(on_wired(BOTH), [Head(1, 3), Head(2, 0)])
    with pytest.raises(ArgumentError, match="there is no head L9H0"):
        asked(on_wired(BOTH), [Head(9, 0)])


@pytest.mark.parametrize(
    ("heads", "reader", "said"),
    [
        (BOTH, (), "`focus` chose no reader"),
        ("L2H1", ("L2H0",), "none of the matching heads (L2H1) lies below L2H0"),
    ],
)
def test_what_cannot_be_asked_is_said(
    on_wired: Callable[..., Context], heads: str, reader: tuple[str, ...], said: str
) -> None:
    result = run_probe(probe_named("routes"), on_wired(heads, left("focus", reader=reader)))
    assert said in result.summary.en and result.findings == () and result.figures == ()


def test_texts_that_share_nothing(
    context: Callable[..., Context], wired: Path, tmp_path: Path
) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("query\ttitle\tgrade\n北京\t苹果\t1\n上海\t电影\t2\n", encoding="utf-8")
    result = run_probe(probe_named("routes"), context(wired, path, {"focus": READS}, heads=BOTH))
    assert "no pair has characters that match" in result.summary.en


@pytest.mark.parametrize(
    ("family", "options", "full"),
    [
        ("ernie", {"heads": 1}, False),
        ("electra", {"labels": 1}, True),
        ("roberta", {"labels": 3, "layers": 4}, False),
        ("xlm-roberta", {"layers": 3}, True),
    ],
)
def test_any_model_goes_through(
    context: Callable[..., Context],
    checkpoint_of: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    family: str,
    options: dict[str, int],
    full: bool,
) -> None:
    monkeypatch.setattr(study_module, "FULL_DRAWS", 2)
    labels = options.get("labels", 5)
    highest = {1: 1, 3: 2}.get(labels, 5)
    texts = [*PAIRS[:6], ("苹果多少钱一斤", "苹果手机多少钱", 2), ("abc 去油", "abc 洗油", 1)]
    lines = [
        f"{q}\t{t}\t{min(grade - 1, highest) if labels < 5 else grade}\n" for q, t, grade in texts
    ]
    path = tmp_path / "pairs.tsv"
    path.write_text("query\ttitle\tgrade\n" + "".join(lines), encoding="utf-8")
    reader = left("focus", reader=(f"L{options.get('layers', 2) - 1}H0",))
    model = checkpoint_of(family, **options)
    made = context(model, path, {"focus": reader}, heads="L0H0", full=full)
    result = run_probe(probe_named("routes"), made)
    assert finding(result, "direct_share").primary
    figures = result.settings["guards"]["paths"]
    assert figures["every_reader"] <= figures["bound"]
    result.write(tmp_path / "routes.json")
    assert ProbeResult.read(tmp_path / "routes.json").summary == result.summary
