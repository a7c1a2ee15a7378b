"""A run from a base of every family to a folder that opens as it was judged."""

import json
from dataclasses import replace

import numpy as np
import pytest

from qt_bert.data.templates import Template
from qt_bert.errors import ArgumentError
from qt_bert.models.checkpoint import smaller_checkpoint
from qt_bert.models.opening import open_checkpoint
from qt_bert.planning.prune import save_smaller
from qt_bert.results.kept import KeptFile, KeptLayer
from qt_bert.scoring.bulk import Scorer
from qt_bert.training.finetune import TrainJob, TuneSettings, run_tuning
from qt_bert.training.recipes import PairSource
from qt_bert.training.selection import reading
from tests.conftest import FAMILIES

SETTINGS = TuneSettings(
    max_steps=3, lr=1e-2, slots=96, dtype="float32", evaluations=1, compile=False
)
UNLIKE = [family for family in FAMILIES if family not in ("ernie", "xlm-roberta", "qwen2")]
CASES = [*((family, {}) for family in UNLIKE), ("modernbert", {"classifier_pooling": "mean"})]


@pytest.fixture
def job(pair_file):
    source = PairSource(pair_file)
    return lambda base: TrainJob(
        base=base, sources=(source,), dev=source, max_length=48, stop_on="nll"
    )


def judged(folder, job) -> float:
    opened = open_checkpoint(folder)
    assert opened.family.fast
    dev = job.dev.read(labelled=True)
    logits = Scorer(opened).logits([(pair.query, pair.title) for pair in dev])
    return reading(logits, dev, opened.settings.labels, "nll")[0]


@pytest.mark.parametrize(("family", "options"), CASES)
def test_the_folder_opens_as_it_was_judged(checkpoint_of, job, tmp_path, family, options):
    tuned = job(checkpoint_of(family, **options))
    facts = run_tuning(tuned, tmp_path / "m", SETTINGS)
    assert judged(tmp_path / "m", tuned) == pytest.approx(facts["best"], abs=0.01)
    assert abs(judged(tuned.base, tuned) - facts["best"]) > 0.02
    logged = (tmp_path / "m" / "training_log.jsonl").read_text("utf-8").splitlines()
    assert np.isfinite([json.loads(line)["train_loss"] for line in logged]).all()


def test_a_smaller_model_keeps_its_names(checkpoint_of, job, tmp_path):
    whole = open_checkpoint(checkpoint_of(layers=3))
    kept = (KeptLayer(layer=0, heads=(0, 1)), KeptLayer(layer=2, heads=(0, 1)))
    small = save_smaller(tmp_path / "small", smaller_checkpoint(whole, kept))
    run_tuning(job(small), tmp_path / "m", SETTINGS)
    assert KeptFile.read(tmp_path / "m") == KeptFile.read(small)
    assert open_checkpoint(tmp_path / "m").kept.names["L1H1"] == "L2H1"


def test_a_causal_base_is_asked_as_its_folder_says(fresh_checkpoint, job, tmp_path):
    base = fresh_checkpoint("qwen3", positions=128)
    template = {"prefix": "yes ", "before": "no:", "between": " yes:", "suffix": " no"}
    (base / "qt_bert.json").write_text(json.dumps({"schema": 1, "template": template}))
    tuned = job(base)
    facts = run_tuning(replace(tuned, max_length=100), tmp_path / "m", SETTINGS)
    assert open_checkpoint(tmp_path / "m").settings.template == Template(**template)
    assert judged(tmp_path / "m", tuned) == pytest.approx(facts["best"], abs=0.01)


def test_a_template_needs_room(fresh_checkpoint, job, tmp_path):
    base = fresh_checkpoint("qwen3")
    (base / "qt_bert.json").write_text('{"schema": 1, "template": "qwen3-reranker"}')
    with pytest.raises(ArgumentError, match="--max-length 48: a pair needs"):
        run_tuning(job(base), tmp_path / "m", SETTINGS)
