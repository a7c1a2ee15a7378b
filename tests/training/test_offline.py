"""Offline models trained: the block that is chosen, the packed forward, and what the folder says."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

from qt_bert.data.pairs import Pair
from qt_bert.data.tokenise import PairTokenizer
from qt_bert.errors import ArgumentError, RunFolderError
from qt_bert.models.card import Offline
from qt_bert.models.checkpoint import open_checkpoint, open_tokenizer
from qt_bert.models.families import FAMILIES
from qt_bert.scoring.bulk import Scorer
from qt_bert.training.batches import BatchLayout, plan_epoch, to_tensors, training_set
from qt_bert.training.finetune import TrainJob, TuneSettings, run_train
from qt_bert.training.model import BlockRequest, Measured, TuningModel
from qt_bert.training.packing import packed_layers
from qt_bert.training.recipes import PairSource
from qt_bert.training.selection import reading
from tests.conftest import LEARNED

SHAPE = {"layers": 3, "heads": 2, "hidden": 16}
BASE = Offline(2, 12, 20)
QUICK = TuneSettings(
    epochs=1, lr=1e-3, slots=96, dtype="float32", evaluations=1, compile=False, patience=0
)


def measured(folder, max_length=48):
    """Queries of 1 to 21 characters, each once: 95 of 100 have 20 or fewer."""
    pairs = [Pair("狗" * n, "猫", None, str(n), n, None, {}) for n in range(1, 22)]
    return Measured(pairs, "dev.tsv", PairTokenizer(open_tokenizer(folder), max_length))


def test_titles_begin_behind_95_percent_of_the_queries_and_have_what_is_left(checkpoint_of):
    block = BlockRequest(offline_layers=2).of(None, measured(checkpoint_of()), 3)
    # [CLS], 20 characters, [SEP]; 48 − 22 − [SEP]
    assert block == (Offline(2, 22, 25), "95% of the queries of dev.tsv")
    two, _ = BlockRequest(2).of(None, measured(checkpoint_of("xlm-roberta")), 3)
    assert two.title_tokens == 48 - two.title_start - 2  # </s></s> t </s>: the title has two


@pytest.mark.parametrize(
    ("asked", "base", "expected"),
    [
        ({}, None, None),
        ({}, BASE, BASE),
        ({"offline_layers": 0}, BASE, None),
        ({"offline_layers": 1}, BASE, Offline(1, 12, 20)),
        ({"title_start": 9}, BASE, Offline(2, 9, 20)),
        ({"title_start": 40}, BASE, Offline(2, 40, 7)),
        ({"title_tokens": 6}, BASE, Offline(2, 12, 6)),
        ({}, Offline(0, 12, 20), Offline(0, 12, 20)),
        ({"offline_layers": 1, "title_start": 9}, None, Offline(1, 9, 38)),
        ({"offline_layers": 1, "title_tokens": 9}, None, Offline(1, 22, 9)),
    ],
)
def test_what_is_not_asked_for_is_as_in_the_base(checkpoint_of, asked, base, expected):
    assert BlockRequest(**asked).of(base, measured(checkpoint_of()), 3)[0] == expected


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"title_start": 9}, "--title-start places titles of an offline model"),
        ({"offline_layers": 0, "title_tokens": 9}, "--title-tokens places titles"),
        ({"offline_layers": 3}, "--offline-layers: 3 offline layers of 3"),
        ({"offline_layers": 1, "title_start": 47}, "titles that begin at position 47 have no room"),
        ({"offline_layers": 1, "title_tokens": 26}, "--max-length 48: .* give 49 or more"),
    ],
)
def test_a_block_that_a_model_cannot_have_is_refused(checkpoint_of, asked, said):
    with pytest.raises(ArgumentError, match=said):
        BlockRequest(**asked).of(None, measured(checkpoint_of()), 3)


def test_nothing_is_measured_on_no_pairs(checkpoint_of):
    nothing = replace(measured(checkpoint_of()), pairs=[])
    with pytest.raises(ArgumentError, match="no pair to measure queries on; give --title-start"):
        BlockRequest(offline_layers=1).of(None, nothing, 3)
    assert BlockRequest(1, title_start=9).of(None, nothing, 3)[1] == "asked for"


def packed(folder, file, slots=480):
    """A model opened to be tuned, the examples of a file, and how they are laid out."""
    checkpoint = open_checkpoint(folder)
    data = training_set([PairSource(file)], checkpoint.pair_tokenizer(), checkpoint.settings.labels)
    block = checkpoint.offline
    model = TuningModel.open(folder, 5, {}, seed=0, apart=block.layers).eval()
    layout = BatchLayout.of(checkpoint.family, checkpoint.pad, 48, slots, block)
    return checkpoint, model, data.examples, layout


@pytest.fixture
def mixed_file(pair_file):
    """Beside the eight pairs queries longer than the title's start, and titles that are cut."""
    with open(pair_file, "a", encoding="utf-8") as handle:
        handle.write(f"{'狗追猫' * 5}\t猫追狗\t2\n狗\t{'猫追狗' * 20}\t1\n狗\t猫\t3\n")
    return pair_file


@pytest.mark.parametrize("below", [0, 1, 2])
@pytest.mark.parametrize("family", LEARNED)
def test_packed_logits_are_those_of_the_scorer(offline_checkpoint_of, mixed_file, family, below):
    folder = offline_checkpoint_of(family, below=below, **SHAPE)
    checkpoint, model, examples, layout = packed(folder, mixed_file)
    pairs = [(p.query, p.title) for p in PairSource(mixed_file).read(labelled=True)]
    expected = torch.from_numpy(Scorer(checkpoint).logits(pairs))
    for plan in plan_epoch(examples, layout, 0, 0):
        order = [i for row in plan.rows for i in row]
        with torch.inference_mode():
            _, logits = model.seen(to_tensors(plan, examples, layout))
        torch.testing.assert_close(logits[: len(order)], expected[order], atol=1e-5, rtol=0)


def test_the_query_learns_nothing_below_from_the_title(offline_checkpoint_of, mixed_file):
    _, model, examples, layout = packed(offline_checkpoint_of(below=2, **SHAPE), mixed_file)
    plan = plan_epoch(examples, layout, 0, 0)[0]
    batch = to_tensors(plan, examples, layout)
    torch.testing.assert_close(batch["groups"] >= 0, batch["segment"] > 0)
    embeddings = model.model.bert.embeddings
    seen = []

    def keep(module, arguments, output):
        output.retain_grad()
        seen.append(output)

    hook = embeddings.register_forward_hook(keep)
    outputs = packed_layers(model.model, FAMILIES["bert"], batch, apart=2)
    hook.remove()
    title = batch["groups"] == 2
    outputs[1][~title][:, 0].sum().backward()
    moved = seen[0].grad.abs().sum(-1)
    assert (moved[title] == 0).all() and (moved[batch["groups"] == 1] > 0).all()


@pytest.fixture
def job(checkpoint_of, pair_file):
    source = PairSource(pair_file)
    return TrainJob(
        checkpoint_of(**SHAPE), (source,), source, max_length=48, stop_on="nll", offline_layers=2
    )


def test_the_folder_says_what_was_trained_and_is_judged_as_such(job, tmp_path):
    facts = run_train(job, tmp_path / "m", QUICK)
    # Of eight queries the longest, ten characters, with [CLS] and [SEP].
    block = {"layers": 2, "title_start": 12, "title_tokens": 35}
    assert facts["offline"] == block | {"title_start_from": "95% of the queries of pairs.tsv"}
    assert json.loads((tmp_path / "m" / "training.json").read_text("utf-8")) == facts
    opened = open_checkpoint(tmp_path / "m")
    assert opened.offline.describe() == block
    dev = job.dev.read(labelled=True)
    texts = [(p.query, p.title) for p in dev]
    plain = replace(opened, settings=replace(opened.settings, offline=None))
    found = [
        reading(Scorer(c).logits(texts), dev, c.settings.labels, "nll") for c in (opened, plain)
    ]
    assert found[0][0] == pytest.approx(facts["best"], abs=0.02)
    assert abs(found[1][0] - facts["best"]) > 0.1


def test_a_run_goes_on_with_its_block_and_no_other(job, tmp_path):
    out = tmp_path / "m"
    run_train(job, out, QUICK)
    before = (out / "model.safetensors").read_bytes()
    other = replace(job, title_start=14)
    with pytest.raises(RunFolderError, match="title_start: None then, 14 now"):
        run_train(other, out, QUICK, resume=True)
    shutil.rmtree(out)  # as after a kill: the state alone is left
    with pytest.raises(RunFolderError, match="offline: "):
        run_train(other, out, QUICK, resume=True)
    run_train(job, out, QUICK, resume=True)
    assert (out / "model.safetensors").read_bytes() == before


@pytest.mark.slow
def test_compiled_losses_are_those_of_plain_ones(offline_checkpoint_of, mixed_file):
    from qt_bert.training.steps import compiled

    _, model, examples, layout = packed(offline_checkpoint_of(below=2, **SHAPE), mixed_file)
    fast = compiled(model.loss)
    for plan in plan_epoch(examples, layout, 0, 0):
        batch = to_tensors(plan, examples, layout)
        np.testing.assert_allclose(fast(batch).item(), model.loss(batch).item(), rtol=1e-4)


def test_numbers_that_cannot_be_are_refused():
    for asked, said in (
        ({"offline_layers": -1}, "layers -1: give 0"),
        ({"title_start": 2}, "3 or"),
    ):
        with pytest.raises(ArgumentError, match=said):
            BlockRequest(**asked).check()
    assert BlockRequest(offline_layers=0).describe() == {"offline_layers": 0}
