"""A worker of a sweep: what it refuses, and what it says of faults."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch

from qt_bert.ablation import run_sweep as run_sweep_module
from qt_bert.ablation.masks import HeadMask, MeanContexts
from qt_bert.ablation.means import write_means
from qt_bert.ablation.run_sweep import SweepInputs
from qt_bert.ablation.shard_folder import shard_line, shard_logits
from qt_bert.ablation.variant import Variant, with_plain
from qt_bert.encoder import open_checkpoint
from qt_bert.encoder.heads import Head
from qt_bert.errors import ArgumentError, CheckpointError, GuardError, RunFolderError
from qt_bert.files import sha256_file
from qt_bert.scale.sweeping import sweeper as shard_sweeper
from qt_bert.scale.sweeping.job import SweepJob
from qt_bert.scale.sweeping.shards import Shard, cut_shards, said_from_json
from qt_bert.scale.sweeping.sweeper import ShardSweeper
from qt_bert.scoring.bulk import Scorer
from tests.scale.swept import MODEL, Killed, Workers, a_few, mean_contexts, run


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def guards(monkeypatch):
    """Guards that pass; how often they ran."""
    ran: list[int] = []
    monkeypatch.setattr(run_sweep_module, "run_guards", lambda *_, **__: ran.append(1) or {})
    return ran


@pytest.fixture
def inputs(scorer, pairs):
    return SweepInputs(scorer.fresh(), pairs, with_plain(a_few()), 5, 0, 30)


@pytest.fixture
def folder(scorer, pairs, tmp_path):
    """A sweep that has just begun."""
    with pytest.raises(Killed):
        run(scorer, pairs, tmp_path / "s", Workers(stop=0))
    return tmp_path / "s"


@pytest.fixture
def job(inputs, folder):
    return SweepJob.of(inputs, folder)


@pytest.fixture
def shards(inputs):
    batches = (batch.rows.tolist() for batch in inputs.batches())
    return cut_shards(batches, len(inputs.variants), 2 * len(inputs.variants))


def test_the_logits_lie_by_the_rows_of_the_shard(scorer, pairs, tmp_path, job, shards, folder):
    torch.set_num_threads(1)
    plain = run(scorer, pairs, tmp_path / "whole").logits
    line = ShardSweeper(job).sweep(shards[1])
    found = np.load(shard_logits(folder, 1))
    np.testing.assert_array_equal(found, plain[:, list(shards[1].rows)])
    assert line.rows == shards[1].rows and len(set(line.rows)) == 2
    assert line.sha256 == sha256_file(shard_logits(folder, 1))
    assert said_from_json(json.loads(shard_line(folder, 1).read_text())) == line


def test_a_worker_takes_one_thread_and_runs_the_guards_once(job, shards, guards):
    torch.set_num_threads(2)
    guards.clear()
    sweeper = ShardSweeper(job)
    assert not guards
    for shard in shards[:2]:
        sweeper.sweep(shard)
    assert len(guards) == 1 and torch.get_num_threads() == 1


def test_failed_guards_write_nothing(scorer, pairs, tmp_path, monkeypatch):
    class Failing(Workers):
        def __call__(self, job, shards):
            def failing(*_, **__):
                raise GuardError("the mask takes no effect")

            monkeypatch.setattr(run_sweep_module, "run_guards", failing)
            yield from super().__call__(job, shards)

    with pytest.raises(GuardError, match=r"the mask takes no effect \(on "):
        run(scorer, pairs, tmp_path / "s", Failing())
    assert not (tmp_path / "s" / "shards").exists()
    assert json.loads((tmp_path / "s" / ".progress.json").read_text())["batches"] == 0


def refused(
    job: SweepJob, shard: Shard, said: str, error: type[Exception] = RunFolderError
) -> None:
    """The worker raises, says so in plain data too, and writes nothing."""
    sweeper = ShardSweeper(job)
    with pytest.raises(error, match=said):
        sweeper.sweep(shard)
    fault = sweeper.answer(shard.describe())
    assert (fault["kind"], fault["error"], fault["number"]) == ("shard-fault", error.__name__, 0)
    with pytest.raises(error, match=said):
        raise said_from_json(fault).raised()


def test_other_variants_are_refused(job, shards, folder):
    other = replace(job, variants=pickle.dumps(a_few(seed=1)))
    refused(other, shards[0], "has another variants than")
    assert not (folder / "shards").exists()


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"dtype": "bfloat16"}, "dtype"),
        ({"max_length": 20}, "max_length"),
        ({"tokens": 31}, "tokens"),
        ({"seed": 1}, "seed"),
        ({"model_grades": "0=2,1=1,2=3,3=4,4=5"}, "model_grades"),
    ],
)
def test_other_settings_are_refused(job, shards, folder, changed, named):
    refused(replace(job, **changed), shards[0], f"has another {named} than")
    assert not (folder / "shards").exists()


def test_another_model_is_refused(job, shards, folder, checkpoint_of):
    other = replace(job, model=str(checkpoint_of("bert", seed=3, **MODEL)))
    refused(other, shards[0], "has another model than")
    refused(replace(job, model="/nowhere"), shards[0], "/nowhere", CheckpointError)
    assert not (folder / "shards").exists()


def test_another_program_is_refused(job, shards, folder):
    other = replace(job, key=job.key | {"source": "edited", "versions": "older"})
    refused(other, shards[0], "another version of this program, versions than")
    assert other.identity != job.identity
    assert not (folder / "shards").exists()


def test_another_file_of_pairs_is_refused(job, shards, folder):
    path = folder / "pairs.csv"
    path.write_text(path.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    refused(job, shards[0], "pairs.csv: changed since")
    path.unlink()
    refused(job, shards[0], "does not see .*pairs.csv; put the sweep's folder where")
    assert not (folder / "shards").exists()


def test_other_mean_contexts_are_refused(job, shards, folder):
    write_means(folder / "means.safetensors", mean_contexts(seed=1))
    refused(job, shards[0], "not the mean contexts of this sweep")
    (folder / "means.safetensors").unlink()
    refused(job, shards[0], "no mean contexts can be read")
    assert not (folder / "shards").exists()


def test_mean_contexts_that_came_damaged_are_refused(job, shards, folder, inputs):
    for part in (part for variant in inputs.variants for part in variant.parts):
        if part.means is not None:
            part.means.vectors[0, 0, 0] += 1
    other = replace(job, variants=pickle.dumps(inputs.variants))
    refused(other, shards[0], "not the mean contexts of this sweep")
    assert not (folder / "shards").exists()


def test_logits_that_are_no_numbers_are_the_error_of_a_plain_sweep(scorer, pairs, tmp_path):
    vectors = mean_contexts().vectors.clone()
    vectors[0, 0] = float("inf")
    means = MeanContexts(_sha256(vectors), vectors)
    masks = [Variant("inf", (HeadMask((Head(0, 0),), "mean", means),))]
    with pytest.raises(ArgumentError) as plain:
        run(scorer, pairs, tmp_path / "plain", variants=masks)
    with pytest.raises(ArgumentError) as sharded:
        run(scorer, pairs, tmp_path / "s", Workers(), variants=masks)
    assert str(sharded.value).startswith(f"{plain.value} (on ")
    assert "variant inf gives no finite logits" in str(plain.value)
    assert not (tmp_path / "s" / "shards").exists()


def _sha256(vectors: torch.Tensor) -> str:
    import hashlib

    return hashlib.sha256(vectors.numpy().tobytes()).hexdigest()


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(28, "No space left on device"), "No space left on device.*--resume"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), "memory ran out.*--resume"),
        (MemoryError(), "memory ran out.*--resume"),
    ],
)
def test_faults_of_disk_and_memory_say_what_to_do(job, shards, folder, monkeypatch, error, said):
    def failing(*_, **__):
        raise error

    monkeypatch.setattr(shard_sweeper, "atomic_write", failing)
    fault = said_from_json(ShardSweeper(job).answer(shards[0].describe()))
    with pytest.raises(RunFolderError, match=said):
        raise fault.raised()
    assert not shard_line(folder, 0).exists()


def test_a_fault_of_the_program_is_raised(job, shards, monkeypatch):
    def failing(*_, **__):
        raise RuntimeError("shapes do not match")

    monkeypatch.setattr(shard_sweeper, "sweep", failing)
    with pytest.raises(RuntimeError, match="shapes"):
        ShardSweeper(job).answer(shards[0].describe())


@pytest.mark.parametrize(("labels", "grades"), [(3, "0=1-2,1=3+5,2=4"), (3, None), (1, None)])
def test_workers_read_the_logits_as_the_driver_does(checkpoint_of, pairs, tmp_path, labels, grades):
    folder = checkpoint_of(labels=labels, **MODEL)
    scorer = Scorer(open_checkpoint(folder, model_grades=grades))
    found = run(scorer, [replace(pair, grades=None) for pair in pairs], tmp_path / "s", Workers())
    assert found.record.complete and found.logits.shape[2] == labels


def test_a_model_opened_small_is_refused(inputs, folder):
    compact = replace(inputs.scorer.checkpoint, compact=True)
    scorer = Scorer(compact)
    with pytest.raises(ArgumentError, match="heads of zeros"):
        SweepJob.of(replace(inputs, scorer=scorer), folder)


def test_paths_are_those_of_every_machine(inputs, folder, monkeypatch):
    monkeypatch.chdir(folder.parent)
    job = SweepJob.of(inputs, folder.relative_to(folder.parent), model="s3://bucket/model")
    assert job.folder == str(folder) and job.model == "s3://bucket/model"
