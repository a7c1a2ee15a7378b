"""A sweep's folder: what is in it, how it goes on after a kill, and what it refuses."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from qt_bert.ablation import sweep as run_sweep_module
from qt_bert.ablation.checks import check_equivalence
from qt_bert.ablation.effects import Effects
from qt_bert.ablation.families import layers, single
from qt_bert.ablation.folder import SweepFolder, read_means
from qt_bert.ablation.interventions import NONE, MeanZ, Variant
from qt_bert.ablation.masks import HeadMask
from qt_bert.ablation.reference import PlainModel
from qt_bert.ablation.sweep import SweepWork, run_sweep
from qt_bert.data.pairs import GradeMap
from qt_bert.data.reader import read_pairs
from qt_bert.data.templates import Template
from qt_bert.errors import ArgumentError, EquivalenceError, RunFolderError
from qt_bert.heads import Head, Shape
from qt_bert.models.batches import to_batch
from qt_bert.models.card import Reading
from qt_bert.models.opening import open_checkpoint
from qt_bert.results.probe import PairsRef
from qt_bert.scoring.bulk import LeftOut, Scorer
from qt_bert.shipped import source_hash

REF = PairsRef(name="pairs.tsv", sha256="ab")
SHAPE = Shape(2, 2)
FILES = {"logits.npy", "variants.csv", "pairs.csv", "effects.csv", "run.json"}


class Killed(Exception):
    """Stands for a kill."""


def variants(mode: str = "zero") -> list[Variant]:
    def mask(heads: Iterable[Head]) -> HeadMask:
        return HeadMask(tuple(heads), mode)

    return [*single(SHAPE, mask), *layers(SHAPE, mask)]


@pytest.fixture
def scorer(checkpoint_of):
    return Scorer(open_checkpoint(checkpoint_of()))


@pytest.fixture
def pairs(pair_file):
    return read_pairs(pair_file, grade_map=GradeMap.identity())


@pytest.fixture(autouse=True)
def short_checks(monkeypatch, request):
    """The checks have tests of their own; here they run where a test asks for them."""
    if "checked" not in request.fixturenames:
        monkeypatch.setattr(run_sweep_module, "check_equivalence", lambda *_, **__: {"bound": 1e-5})


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    """The eight pairs are several batches; no test reads p, for which signs are swapped 9,999 times."""
    monkeypatch.setitem(Effects.__init__.__kwdefaults__, "draws", 99)
    monkeypatch.setattr(run_sweep_module, "batch_tokens", lambda variants: 30)


@pytest.fixture
def checked():
    return check_equivalence


def run(scorer, pairs, out: Path, masks=None, **options) -> SweepFolder:
    settings = {"pairs_ref": REF, "resamples": 20} | options
    return run_sweep(scorer, pairs, masks or variants(), out, **settings)


def kill(monkeypatch, batches: int, *arguments, marked: bool = True, **options) -> None:
    """Run, and kill the next batch: before a byte is written, or between logits and mark."""
    store, save, calls = SweepWork.store, SweepWork._save, []

    def stopping(work, swept):
        calls.append(1)
        if len(calls) > batches and marked:
            raise Killed
        store(work, swept)

    def unmarked(work):
        if len(calls) > batches and not marked:
            raise Killed
        save(work)

    with monkeypatch.context() as patch:
        patch.setattr(SweepWork, "store", stopping)
        patch.setattr(SweepWork, "_save", unmarked)
        with pytest.raises(Killed):
            run(*arguments, **options)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_logits_are_those_of_the_plain_model_with_hooks(scorer, pairs, tmp_path):
    result = run(scorer, pairs, tmp_path / "s")
    plain = PlainModel(scorer.checkpoint.model, scorer.checkpoint.family)
    encoded = scorer.tokenizer.encode([(p.query, p.title) for p in pairs], offsets=False)
    batch = to_batch(np.arange(len(pairs)), encoded, pad=scorer.pad)
    expected = [plain.logits(batch, variant.parts).numpy() for variant in [NONE, *variants()]]
    np.testing.assert_allclose(result.logits, np.stack(expected), atol=1e-5)


def test_a_seed_that_no_float_holds_comes_back(scorer, pairs, tmp_path):
    drawn = Variant("drawn", (HeadMask((Head(0, 0),)),), "random", 7, 2**53 + 1)
    assert run(scorer, pairs, tmp_path / "s", [drawn]).variants["seed"][1] == 2**53 + 1


def test_the_folder_holds_tables_in_the_order_of_the_logits(scorer, pairs, tmp_path):
    result = run(scorer, pairs, tmp_path / "s", arguments={"masks": ["single", "layers"]})
    assert set(contents(tmp_path / "s")) == FILES
    assert result.logits.shape == result.record.shape == (7, 8, 5)
    assert result.logits.dtype == np.float32 and not result.logits.flags.writeable
    names = ["none", "L0H0", "L0H1", "L1H0", "L1H1", "L0", "L1"]
    assert result.variants["name"].tolist() == names
    assert result.variants["heads"].tolist()[-1] == "L1H0 L1H1"
    assert result.variants["draw"].isna().all()
    assert [(p.query, p.title, p.grades, p.line) for p in result.pairs] == [
        (p.query, p.title, p.grades, p.line) for p in pairs
    ]
    assert {(row.name, row.metric) for row in result.effects} >= {("L1H1", "qwk"), ("L0", "kl")}
    assert result.row("L0") == 5
    right = result.logits.argmax(2) + 1 == [pair.grades[0] for pair in pairs]
    (changed,) = [row for row in result.effects if row[:2] == ("L0", "accuracy")]
    assert changed.absolute == pytest.approx(right[5].mean() - right[0].mean())
    with pytest.raises(RunFolderError, match="no variant is named 'L9'"):
        result.row("L9")


def test_run_json_says_what_decided_the_sweep(scorer, pairs, tmp_path, checked):
    record = json.loads((run(scorer, pairs, tmp_path / "s").path / "run.json").read_text())
    assert (record["schema"], record["kind"], record["complete"]) == (1, "sweep", True)
    assert record["model"] == scorer.checkpoint.describe()
    assert record["pairs"] == {"name": "pairs.tsv", "sha256": "ab", "n_pairs": 8, "n_queries": 5}
    assert record["key"]["source"] == source_hash()
    assert record["guards"]["unmasked"] <= record["guards"]["bound"]
    assert record["versions"]["numpy"] == np.__version__ and record["means"] is None


def test_mean_head_outputs_are_stored_beside_the_logits(scorer, pairs, tmp_path):
    vectors = np.zeros((2, 2, 8), np.float32)
    means = MeanZ(hashlib.sha256(vectors.tobytes()).hexdigest(), torch.from_numpy(vectors))
    masks = [Variant("m", (HeadMask((Head(0, 0),), "mean", means),))]
    result = run(scorer, pairs, tmp_path / "s", masks)
    assert result.record.means == means.sha256
    assert read_means(tmp_path / "s" / "means.safetensors") == means
    run(scorer, pairs, tmp_path / "s", overwrite=True)
    assert set(contents(tmp_path / "s")) == FILES


def test_two_sets_of_mean_head_outputs_are_refused(scorer, pairs, tmp_path):
    masks = [
        Variant(name, (HeadMask((Head(0, 0),), "mean", MeanZ(name, torch.zeros(2, 2, 8))),))
        for name in "ab"
    ]
    with pytest.raises(ArgumentError, match="share their mean head outputs"):
        run(scorer, pairs, tmp_path / "s", masks)
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize("marked", [True, False])
@pytest.mark.parametrize("batches", [0, 1, 3])
def test_a_stopped_sweep_goes_on_to_the_same_bytes(
    scorer, pairs, tmp_path, monkeypatch, batches, marked
):
    run(scorer, pairs, tmp_path / "whole")
    kill(monkeypatch, batches, scorer, pairs, tmp_path / "stopped", marked=marked)
    with pytest.raises(RunFolderError, match="an unfinished sweep; add --resume"):
        run(scorer, pairs, tmp_path / "stopped")
    with pytest.raises(RunFolderError, match="--resume goes on with it"):
        SweepFolder.read(tmp_path / "stopped")
    computed = []
    store = SweepWork.store
    monkeypatch.setattr(
        SweepWork, "store", lambda work, swept: (computed.append(swept.rows), store(work, swept))
    )
    run(scorer, pairs, tmp_path / "stopped", resume=True)
    whole = list(scorer.batches([(p.query, p.title) for p in pairs], 30))
    assert [list(rows) for rows in computed] == [list(b.rows) for b in whole[batches:]]
    assert contents(tmp_path / "stopped") == contents(tmp_path / "whole")


def test_a_sweep_stopped_in_its_effects_computes_no_logits_again(
    scorer, pairs, tmp_path, monkeypatch
):
    run(scorer, pairs, tmp_path / "whole")

    def killed(*_):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(run_sweep_module, "write_effects", killed)
        with pytest.raises(Killed):
            run(scorer, pairs, tmp_path / "s")
    monkeypatch.setattr(SweepWork, "store", killed)
    run(scorer, pairs, tmp_path / "s", resume=True)
    assert contents(tmp_path / "s") == contents(tmp_path / "whole")


def test_a_finished_sweep_is_left_alone(scorer, pairs, tmp_path, monkeypatch):
    run(scorer, pairs, tmp_path / "s")
    before = contents(tmp_path / "s")
    monkeypatch.setattr(run_sweep_module, "check_equivalence", lambda *_, **__: 1 / 0)
    assert run(scorer, pairs, tmp_path / "s", resume=True).record.complete
    with pytest.raises(RunFolderError, match="a finished sweep; add --resume"):
        run(scorer, pairs, tmp_path / "s")
    assert contents(tmp_path / "s") == before


@pytest.mark.parametrize(
    "change", ["seed", "variants", "pairs", "model", "max_length", "reading", "template"]
)
def test_resuming_with_something_else_says_what(
    checkpoint_of, scorer, pairs, tmp_path, monkeypatch, change
):
    kill(monkeypatch, 1, scorer, pairs, tmp_path / "s")
    before = contents(tmp_path / "s")
    prompted = replace(scorer.checkpoint.settings, template=Template("a", "b", "c", "d"))
    others = {
        "seed": {"seed": 1},
        "variants": {"masks": variants("uniform")},
        "pairs": {"pairs": pairs[1:]},
        "model": {"scorer": Scorer(open_checkpoint(checkpoint_of("bert", seed=3)))},
        "max_length": {"scorer": Scorer(scorer.checkpoint, max_length=20)},
        "reading": {"scorer": Scorer(replace(scorer.checkpoint, reading=Reading(None, "no")))},
        "template": {"scorer": Scorer(replace(scorer.checkpoint, settings=prompted))},
    }
    options = {"scorer": scorer, "pairs": pairs} | others[change]
    with pytest.raises(RunFolderError, match=f"begun with another {change};"):
        run(out=tmp_path / "s", resume=True, **options)
    assert contents(tmp_path / "s") == before


def test_another_version_of_the_program_does_not_go_on(scorer, pairs, tmp_path, monkeypatch):
    run(scorer, pairs, tmp_path / "s")
    monkeypatch.setattr(run_sweep_module, "source_hash", lambda: "edited")
    with pytest.raises(RunFolderError, match="another version of this program"):
        run(scorer, pairs, tmp_path / "s", resume=True)


def test_overwriting_ends_as_if_nothing_had_been_there(scorer, pairs, tmp_path, monkeypatch):
    run(scorer, pairs, tmp_path / "whole")
    run(scorer, pairs[:5], tmp_path / "s", variants("uniform"))
    (tmp_path / "s" / "notes.txt").write_text("mine")
    kill(monkeypatch, 2, scorer, pairs, tmp_path / "s", overwrite=True)
    run(scorer, pairs, tmp_path / "s", resume=True)
    result = contents(tmp_path / "s")
    assert result.pop("notes.txt") == b"mine"
    assert result == contents(tmp_path / "whole")


@pytest.mark.parametrize("flag", ["resume", "overwrite"])
@pytest.mark.parametrize("record", [None, "{}", "not json", '{"kind": "study", "schema": 1}'])
def test_a_folder_of_something_else_is_never_touched(scorer, pairs, tmp_path, flag, record):
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "mine.txt").write_text("mine")
    if record is not None:
        (tmp_path / "s" / "run.json").write_text(record)
    before = contents(tmp_path / "s")
    with pytest.raises(RunFolderError, match="choose another folder"):
        run(scorer, pairs, tmp_path / "s", **{flag: True})
    assert contents(tmp_path / "s") == before


def test_a_failed_guard_leaves_nothing(scorer, pairs, tmp_path, monkeypatch):
    def failing(*_, **__):
        raise EquivalenceError("the mask takes no effect")

    monkeypatch.setattr(run_sweep_module, "check_equivalence", failing)
    with pytest.raises(EquivalenceError):
        run(scorer, pairs, tmp_path / "s")
    assert not (tmp_path / "s").exists()


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-8])


def _one_row_less(path: Path) -> None:
    path.write_text("\n".join(path.read_text(encoding="utf-8").splitlines()[:-1]) + "\n")


@pytest.mark.parametrize(
    ("name", "damage", "message"),
    [
        ("logits.npy", _cut, "cannot be read"),
        ("logits.npy", lambda p: np.save(p, np.zeros((2, 2, 5), np.float32)), "not float32"),
        ("logits.npy", lambda p: np.save(p, np.array([{}], object)), "cannot be read"),
        ("variants.csv", _one_row_less, "6 rows, not 7"),
        ("variants.csv", lambda p: p.write_text("a\n1\n"), "not the variants"),
        ("pairs.csv", _one_row_less, "7 rows, not 8"),
        ("run.json", lambda p: p.write_text("{}"), "holds no sweep of this program"),
        ("run.json", Path.unlink, "is no sweep folder"),
    ],
)
def test_a_damaged_folder_is_refused_in_words(scorer, pairs, tmp_path, name, damage, message):
    run(scorer, pairs, tmp_path / "s")
    damage(tmp_path / "s" / name)
    with pytest.raises(RunFolderError, match="is no folder"):
        SweepFolder.read(tmp_path / "none")
    with pytest.raises(RunFolderError, match=message):
        SweepFolder.read(tmp_path / "s")


def test_logits_cut_short_are_not_made_longer_on_resuming(scorer, pairs, tmp_path, monkeypatch):
    kill(monkeypatch, 1, scorer, pairs, tmp_path / "s")
    _cut(tmp_path / "s" / "logits.npy")
    with pytest.raises(RunFolderError, match="run the sweep again with --overwrite"):
        run(scorer, pairs, tmp_path / "s", resume=True)


def test_pairs_without_labels_have_effects_that_need_none(scorer, pair_file, tmp_path):
    result = run(scorer, read_pairs(pair_file), tmp_path / "s")
    assert {row.metric for row in result.effects} == {"expected_grade", "changed_grades", "kl"}
    assert all(pair.grades is None for pair in result.pairs)


def test_cut_texts_are_counted_once_however_often_the_run_stopped(
    checkpoint_of, pairs, tmp_path, monkeypatch
):
    short = Scorer(open_checkpoint(checkpoint_of()), max_length=20)
    whole = run(short, pairs, tmp_path / "whole").record
    kill(monkeypatch, 2, short, pairs, tmp_path / "s")
    assert run(short, pairs, tmp_path / "s", resume=True).record == whole
    assert short.counts.truncated_titles == whole.truncated_titles > 0
    assert short.counts.pairs == len(pairs)


def test_logits_that_are_no_numbers_stop_the_sweep(scorer, pairs, tmp_path):
    means = MeanZ("ab", torch.full((2, 2, 8), float("inf")))
    masks = [Variant("inf", (HeadMask((Head(0, 0),), "mean", means),))]
    with pytest.raises(ArgumentError, match="variant inf gives no finite logits"):
        run(scorer, pairs, tmp_path / "s", masks)


def test_what_would_fail_after_the_sweep_fails_before_it(scorer, pairs, tmp_path):
    half_labelled = [*pairs[:4], *(replace(pair, grades=None) for pair in pairs[4:])]
    with pytest.raises(ArgumentError, match="have no label"):
        run(scorer, half_labelled, tmp_path / "s")
    with pytest.raises(ArgumentError, match="no pairs"):
        run(scorer, [], tmp_path / "s")
    with pytest.raises(ArgumentError, match="two variants are named 'L0H0'"):
        run(scorer, pairs, tmp_path / "s", variants() * 2)
    with pytest.raises(ArgumentError, match="at least one variant"):
        run(scorer, pairs, tmp_path / "s", [NONE])
    without = scorer.without(LeftOut("L0H0", "zero", forward=lambda batch: None))
    with pytest.raises(ArgumentError, match="takes the whole model"):
        run(without, pairs, tmp_path / "s")
    assert not (tmp_path / "s").exists()
