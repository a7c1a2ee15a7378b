"""What a probe gets: pairs to choose on, pairs to test on, and what it was asked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qt_bert.encoder import open_checkpoint
from qt_bert.errors import PairFileError
from qt_bert.files import sha256_file
from qt_bert.pairs import ReaderOptions
from qt_bert.pairs.splits import half_of
from qt_bert.probes.context import ProbeContext
from qt_bert.probes.probe import run_probe
from qt_bert.probes.registry import probe_named
from qt_bert.probes.split import PairFiles
from qt_bert.scoring.bulk import Scorer

Context = Callable[..., ProbeContext]


@pytest.fixture
def context(checkpoint_of: Callable[..., Path], pair_file: Path, tmp_path: Path) -> Context:
    """A context around a tiny model and the eight pairs, any of its fields changed by keyword."""

    def build(**changes: Any) -> ProbeContext:
        facts: dict[str, Any] = {
            "label": "fake",
            "files": PairFiles(pairs=pair_file),
            "work": tmp_path / "sweeps" / "fake",
            "open_model": lambda: Scorer(open_checkpoint(checkpoint_of())),
        }
        return ProbeContext(**(facts | changes))

    return build


def test_a_file_is_halved_by_query(context: Context) -> None:
    made = context()
    assert {half_of(pair.query) for pair in made.discovery} == {"discovery"}
    assert {half_of(pair.query) for pair in made.validation} == {"validation"}
    assert len(made.discovery) + len(made.validation) == 8


def test_a_discovery_file_leaves_the_pairs_whole(
    context: Context, pair_file: Path, tmp_path: Path
) -> None:
    dev = tmp_path / "dev.tsv"
    dev.write_text("query\ttitle\tgrade\n狗\t猫\t1\nno grade\tx\t\n", encoding="utf-8")
    files = PairFiles(pairs=pair_file, discovery=dev, reader=ReaderOptions(max_rejects=0.5))
    made = context(files=files)
    assert ([pair.query for pair in made.discovery], len(made.validation)) == (["狗"], 8)
    assert made.settings()["discovery"]["n_pairs"] == 1
    assert made.settings()["rejected"] == 1


def test_a_half_without_pairs_is_refused(context: Context, tmp_path: Path) -> None:
    path = tmp_path / "one.tsv"
    path.write_text("query\ttitle\tgrade\n狗追猫\t猫\t1\n", encoding="utf-8")
    with pytest.raises(PairFileError, match="validation half of the queries has no graded pair"):
        _ = context(files=PairFiles(pairs=path)).validation


def test_references_name_what_was_used(context: Context, pair_file: Path) -> None:
    made = context()
    assert made.pairs_ref.sha256 == sha256_file(pair_file)
    assert made.pairs_ref.n_pairs == len(made.validation)
    assert made.model_ref.sha256 == made.model.checkpoint.sha256


def test_nothing_is_opened_before_it_is_asked_for(context: Context) -> None:
    def refuse() -> Scorer:
        raise AssertionError("opened")

    made = context(open_model=refuse, full=True)
    assert made.choose(2, 20) == 20
    assert made.segmenter.words("京东小哥")
    with pytest.raises(AssertionError, match="opened"):
        _ = made.model


def test_running_fills_in_what_all_probes_share(context: Context, fake_probe: None) -> None:
    result = run_probe(probe_named("fake"), context(seed=3))
    assert (result.probe, result.order) == ("fake", 3)
    assert result.title is not None and result.title.en == "Fake"
    assert (result.settings["seed"], result.settings["profile"]) == (3, "quick")
    assert (result.settings["sample"], result.settings["guards"]) == (2, {"difference": 1e-6})
    assert [finding.verdict for finding in result.findings][1] == "reproduced"
    assert result.findings[0].q == pytest.approx(0.01)
