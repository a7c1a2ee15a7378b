"""The probe of links as a whole: planted arcs, what it does without, odd models."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qt_bert.data.reader import ReaderOptions
from qt_bert.errors import PairFileError
from qt_bert.figures import HeatMap
from qt_bert.models.checkpoint import open_checkpoint, smaller_checkpoint
from qt_bert.planning.prune import save_smaller
from qt_bert.probes.base import Context, run_probe
from qt_bert.probes.matching_cells import Aligned
from qt_bert.probes.registry import probe_named
from qt_bert.probes.relations import aligned, study
from qt_bert.probes.split import PairFiles
from qt_bert.results.kept import KeptLayer
from qt_bert.results.probe import Finding, ProbeResult
from qt_bert.scoring.bulk import Scorer
from tests.probes.judged import outcome
from tests.probes.planted_matching import pairs_of, write_pairs
from tests.probes.planted_relations import PLANTED, plant_links, write_treebank
from tests.probes.shown import check_shown

Run = Callable[..., ProbeResult]


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return plant_links(tmp_path_factory.mktemp("planted") / "model")


@pytest.fixture(scope="module")
def treebank(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_treebank(tmp_path_factory.mktemp("bank") / "bank.conllu", 240)


@pytest.fixture
def run(pair_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the probe on a model folder; any field of the context by keyword."""

    def call(model: Path, **changes: Any) -> ProbeResult:
        facts: dict[str, Any] = {
            "label": "relations",
            "files": PairFiles(pairs=pair_file),
            "work": tmp_path / "work" / model.name,
            "open_model": lambda: Scorer(open_checkpoint(model)),
            "resamples": 100,
        }
        context = Context(**(facts | changes))
        return run_probe(probe_named("relations"), context)

    monkeypatch.setattr(study, "QUICK_DRAWS", 199)
    return call


@pytest.fixture
def aligned_pairs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Forty pairs whose first character of the query is said to mean the title's last one."""
    made = pairs_of(40)
    monkeypatch.setattr(
        aligned,
        "alignments",
        lambda: {(q, t): (Aligned(0, 1, len(t) - 1, len(t)),) for q, t, _ in made},
    )
    return write_pairs(tmp_path / "aligned.tsv", made)


def _by_id(result: ProbeResult) -> dict[str, Finding]:
    return {one.id: one for one in result.findings}


def test_planted_arcs_are_found_and_chance_ones_are_not(
    run: Run, planted: Path, treebank: Path
) -> None:
    result = run(planted, treebanks=(treebank,), base=planted)
    assert result.sets["relations_words"] == (str(PLANTED),)
    relations = result.settings["relations"]
    assert relations["obj"]["named"] and relations["obj"]["head"] == str(PLANTED)
    assert not relations["nmod"]["named"]
    assert relations["obj"]["times"]["validation"] > 3
    found = _by_id(result)
    assert outcome(found["relations_words"]) == "reproduced"
    # The chain has all words right but two of seven; the heads hardly more than the partners.
    tree = found["relations_tree_right"]
    assert outcome(tree) == "reproduced" and tree.value is not None and -72 < tree.value < -40
    assert "relations_left_out" in found and found["relations_obj"].primary is False
    assert result.settings["looked_at"] == "base" and PLANTED.layer == 1
    selected = [one.head for one in result.heads if one.selected]
    assert selected == [str(PLANTED)]
    names = [figure.name for figure in result.figures]
    assert len(names) == len(set(names)) and "relations_tree" in names
    check_shown(result)


def test_without_a_treebank_only_aligned_spans(
    run: Run, planted: Path, aligned_pairs: Path
) -> None:
    result = run(planted, files=PairFiles(pairs=aligned_pairs))
    assert set(_by_id(result)) <= {"relations_aligned", "relations_left_out"}
    assert "relations_aligned" in _by_id(result)
    assert "--treebank" in result.summary.en and "--base" in result.summary.en
    assert result.settings["words"] is None


def test_under_full_everything_is_taken(
    run: Run, planted: Path, treebank: Path, aligned_pairs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(study, "FULL_DRAWS", 99)
    pairs = PairFiles(pairs=aligned_pairs)
    result = run(planted, treebanks=(treebank, treebank), files=pairs, full=True)
    sizes = result.settings["words"]
    assert sizes["discovery"]["texts"] + sizes["validation"]["texts"] in (120, 121)
    assert result.settings["exchanges"] == 99 and result.settings["relations"]["obj"]["named"]
    assert {"relations_words", "relations_aligned"} <= set(_by_id(result))


def test_with_neither_it_says_so(run: Run, checkpoint_of: Callable[..., Path]) -> None:
    result = run(checkpoint_of())
    assert result.findings == () and result.figures == () and result.sets["relations"] == ()
    assert result.settings["order_heads"] is None and result.stability == {}
    assert "no aligned spans" in result.summary.en and "树库" in result.summary.zh


@pytest.mark.parametrize(
    ("family", "labels", "grades"),
    [("xlm-roberta", 1, None), ("electra", 5, "0=1-3,1=4-5"), ("bert", 1, None)],
)
def test_other_families_one_logit_and_coarse_labels(
    run: Run,
    checkpoint_of: Callable[..., Path],
    treebank: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    family: str,
    labels: int,
    grades: str | None,
) -> None:
    monkeypatch.setattr(study, "QUICK_SENTENCES", 90)
    rows = "".join(f"{q}\t{t}\t{int(g > 3)}\n" for q, t, g in pairs_of(24))
    path = tmp_path / "coarse.tsv"
    path.write_text("query\ttitle\tgrade\n" + rows, encoding="utf-8")
    if grades is None:
        path = write_pairs(tmp_path / "p.tsv", pairs_of(24))
    result = run(
        checkpoint_of(family, labels=labels, hidden=32),
        treebanks=(treebank,),
        files=PairFiles(pairs=path, reader=ReaderOptions(grades=grades)),
    )
    assert set(result.settings["relations"]) == {"obj", "nmod"}
    assert result.settings["words"]["validation"]["linked"] > 50
    assert _by_id(result)["relations_words"].value is not None


def test_heads_and_layers_that_were_pruned_take_no_part(
    run: Run, checkpoint_of: Callable[..., Path], treebank: Path, tmp_path: Path
) -> None:
    teacher = open_checkpoint(checkpoint_of(layers=3, heads=4, hidden=32))
    kept = tuple(KeptLayer(layer=n, heads=heads) for n, heads in enumerate([(1, 3), (), (0,)]))
    folder = save_smaller(tmp_path / "small", smaller_checkpoint(teacher, kept))
    result = run(folder, treebanks=(treebank,))
    assert [one.head for one in result.heads] == ["L0H1", "L0H3", "L2H0"]
    (drawn,) = (one for one in result.figures if one.name == "relations_obj")
    assert isinstance(drawn, HeatMap) and drawn.values[1] == (None,) * 4


def test_few_sentences_ask_about_nothing(
    run: Run, checkpoint_of: Callable[..., Path], tmp_path: Path
) -> None:
    few = write_treebank(tmp_path / "few.conllu", 12)
    result = run(checkpoint_of(), treebanks=(few,))
    assert result.findings == () and "50" in result.summary.en


def test_a_broken_treebank_is_an_error_with_its_line(
    run: Run, checkpoint_of: Callable[..., Path], tmp_path: Path
) -> None:
    path = tmp_path / "broken.conllu"
    path.write_text("1\t走\n", encoding="utf-8")
    with pytest.raises(PairFileError, match="line 1: 2 columns"):
        run(checkpoint_of(), treebanks=(path,))
