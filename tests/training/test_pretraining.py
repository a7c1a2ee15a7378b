"""Pretraining batches and losses."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from qt_bert.errors import ArgumentError, RunFolderError
from qt_bert.training.corpus import Corpus, TokenStore
from qt_bert.training.pretrain import (
    BatchShape,
    PretrainSettings,
    SpecialTokens,
    batches,
    losses,
    new_model,
    pretrain,
)
from qt_bert.training.state import read_log
from qt_bert.training.steps import Gradients

SPECIAL = SpecialTokens(cls=2, sep=3, pad=0, mask=4, vocabulary=50)
SHAPE = BatchShape(slots=256, short=16, long=32)


def store(texts):
    offsets = np.cumsum([0] + [len(t) for t in texts])
    return TokenStore(np.concatenate(texts).astype(np.uint16), offsets)


@pytest.fixture
def corpus():
    rng = np.random.default_rng(0)
    texts = [rng.integers(5, 50, rng.integers(2, 60)) for _ in range(300)]
    return Corpus(store(texts), store(texts[:40]), store(texts[40:80]))


def take(stream, n):
    return [next(stream) for _ in range(n)]


def test_batches_go_on_where_a_run_stopped(corpus):
    whole = take(batches(corpus, SPECIAL, SHAPE, 7), 9)
    later = take(batches(corpus, SPECIAL, SHAPE, 7, skip=5), 4)
    for a, b in zip(whole[5:], later, strict=True):
        assert all(torch.equal(tensor, b.tensors[name]) for name, tensor in a.tensors.items())


def test_a_batch_that_no_chunk_fills_is_refused(corpus):
    with pytest.raises(ArgumentError, match="do not fill a batch of 5,000,000 slots"):
        next(batches(corpus, SPECIAL, replace(SHAPE, slots=5_000_000), 0))


def test_a_kind_of_example_that_fills_no_batch_is_named(corpus, capsys):
    next(batches(corpus, SPECIAL, SHAPE, 0))
    assert capsys.readouterr().err == ""
    next(batches(corpus, SPECIAL, replace(SHAPE, slots=200_000), 0))
    assert "examples of 1 to 16 tokens do not fill a batch" in capsys.readouterr().err


def test_masked_slots_hold_the_text_they_hid(corpus):
    batch = next(batches(corpus, SPECIAL, SHAPE, 0))
    flat = {name: tensor.numpy().ravel() for name, tensor in batch.tensors.items()}
    n = int(flat["masked_weight"].sum())
    slots, labels = flat["masked_slot"][:n], flat["masked_label"][:n]
    assert (labels >= 5).all() and (flat["segment"][slots] > 0).all()
    hidden = flat["input_ids"][slots]
    assert 0.6 < np.mean(hidden == SPECIAL.mask) < 0.95 and np.mean(hidden == labels) < 0.3
    assert 0.05 < n / batch.tokens < 0.17


def test_a_small_batch_has_a_masked_token(corpus):
    shape = replace(SHAPE, slots=32, masked_share=0.001)
    made = [batch.tensors for batch in take(batches(corpus, SPECIAL, shape, 0), 40)]
    assert {float(tensors["masked_weight"].sum()) for tensors in made} == {1.0}


def test_negatives_are_about_their_share(corpus):
    made = [batch.tensors for batch in take(batches(corpus, SPECIAL, SHAPE, 2), 12)]
    labels = torch.cat([tensors["belongs"][: int(tensors["cls_weight"].sum())] for tensors in made])
    assert labels.double().mean() == pytest.approx(0.7, abs=0.06)


def test_losses_equal_the_hugging_face_model_on_unpacked_examples(corpus):
    torch.manual_seed(0)
    model = new_model(vocabulary=50, layers=2, heads=2, hidden=16, positions=32, seed=0).eval()
    batch = next(batches(corpus, SPECIAL, SHAPE, 3)).tensors
    packed = losses(model, batch)
    flat = {n: batch[n].ravel() for n in ("input_ids", "token_type_ids", "segment")}
    width = batch["segment"].shape[1]
    mlm, pair = {}, []
    for number, start in enumerate(batch["cls_slot"][: int(batch["cls_weight"].sum())].tolist()):
        end = start
        while end < (start // width + 1) * width and flat["segment"][end] == flat["segment"][start]:
            end += 1
        ids, types = (flat[name][None, start:end] for name in ("input_ids", "token_type_ids"))
        out = model(input_ids=ids, token_type_ids=types)
        for offset in range(end - start):
            mlm[start + offset] = out.prediction_logits[0, offset]
        label = 1 - batch["belongs"][number : number + 1]
        pair.append(torch.nn.functional.cross_entropy(out.seq_relationship_logits, label))
    n = int(batch["masked_weight"].sum())
    logits = torch.stack([mlm[int(s)] for s in batch["masked_slot"][:n]])
    expected = torch.nn.functional.cross_entropy(logits, batch["masked_label"][:n])
    torch.testing.assert_close(packed[0], expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(packed[1], torch.stack(pair).mean(), atol=1e-5, rtol=0)


def test_a_killed_run_logs_what_an_undisturbed_one_logs(corpus, tmp_path, monkeypatch):
    """Saved after three of five steps, within the second two of the log."""
    settings = PretrainSettings(
        5, dtype="float32", save_every=3, log_every=2, compile=False, shape=SHAPE
    )

    def run(name, **how):
        model = new_model(vocabulary=50, layers=2, heads=2, hidden=16, positions=32, seed=0)
        pretrain(model, corpus, SPECIAL, settings, tmp_path / name, identity={}, **how)
        logged = read_log(tmp_path / name / "log.jsonl")
        return [{k: v for k, v in row.items() if k != "tokens_per_second"} for row in logged]

    whole, of, calls = run("whole"), Gradients.of, []

    def killed(self, batch):
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return of(self, batch)

    monkeypatch.setattr(Gradients, "of", killed)
    with pytest.raises(KeyboardInterrupt):
        run("killed")
    assert run("killed") == whole
    with pytest.raises(RunFolderError, match="is at step 5, beyond --stop-at 4"):
        run("killed", stop_at=4)
