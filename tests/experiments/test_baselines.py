"""The table of baselines on tiny models: made whole, gone on with, read back; the rivals' parts."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModel
from typer.testing import CliRunner

from experiments.baselines.rivals import BiLstm, Rival, RivalScorer, Side, aligned, pooled
from experiments.baselines.run import STARTS, Study, run
from experiments.baselines.words import spaced, stacked, word_tokenizer
from qt_bert.cli.register import app
from qt_bert.data.tokenise import PairTokenizer
from qt_bert.errors import ArgumentError
from qt_bert.files import read_json
from qt_bert.models.loading import open_for_pretraining
from qt_bert.models.tokenizer import open_tokenizer
from qt_bert.request import Request
from qt_bert.results.baselines import (
    CHARACTERS,
    LEXICAL,
    LSTM,
    MODELS,
    NO_PAIRS,
    RANDOM,
    WORDS,
    read_baselines,
)
from qt_bert.training.pretrain import NewShape
from qt_bert.training.recipes import load_recipe
from tests.conftest import write_pairs

KNOWN = list(
    "北京到上海高铁票价时刻表查询怎么去除衣服上的油渍沾了洗掉红烧排骨家常做法苹果手机多少钱一斤"
)


def texts(count: int, seed: int, length: int = 10) -> list[str]:
    """Made texts of known characters, all different."""
    rng = np.random.default_rng(seed)
    return [f"{i}{''.join(rng.choice(KNOWN, length))}" for i in range(count)]


def graded(path: Path, count: int, seed: int) -> Path:
    """Pairs of two titles a query: a title shares as many characters with its query as its grade says."""
    rng, rows = np.random.default_rng(seed), []
    for query in texts(count, seed):
        for grade in (int(rng.integers(1, 4)), int(rng.integers(4, 6))):
            title = query[: 2 * grade] + "".join(rng.choice(KNOWN, 6))
            rows.append((query, title, grade))
    return write_pairs(path, rows)


TUNING = """
[job]
max_length = 48
stop_on = "spearman"
[settings]
max_steps = 3
slots = 256
evaluations = 1
compile = false
dtype = "float32"
[dev]
file = "dev.tsv"
[[pairs]]
file = "train.tsv"
"""
PRETRAINING = """
text = ["text.txt"]
[settings]
lr = 1e-3
warmup = 1
compile = false
dtype = "float32"
log_every = 2
shape = {slots = 256, short = 16, long = 48}
[[pairs]]
file = "train.tsv"
"""


@pytest.fixture(scope="module")
def study(checkpoint_of, tmp_path_factory) -> Study:
    folder = tmp_path_factory.mktemp("data")
    for name, count, seed in (("train", 40, 100), ("dev", 15, 200), ("test", 40, 300)):
        graded(folder / f"{name}.tsv", count, seed)
    (folder / "text.txt").write_text("\n".join(texts(400, 400, 24)), encoding="utf-8")
    for name, text in (("tuning", TUNING), ("pretraining", PRETRAINING)):
        (folder / f"{name}.toml").write_text(text, encoding="utf-8")
    return Study(
        out=tmp_path_factory.mktemp("made") / "table",
        base=checkpoint_of("bert"),
        tuning=load_recipe(folder / "tuning.toml", folder),
        pretraining=load_recipe(folder / "pretraining.toml", folder),
        request=Request(pairs=folder / "test.tsv"),
        shape=NewShape(2, 2, 16, 48),
        first_layers=1,
        starts=tuple(replace(start, first_steps=3, steps=4) for start in STARTS),
        rates=(1e-3, 3e-3),
        trial_steps=2,
        words=60,
    )


@pytest.fixture(scope="module")
def made(study) -> Path:
    run(study, notify=lambda line: None)
    return study.out


def test_the_table_is_whole(made, study):
    table = read_baselines(made)
    record = table.record
    assert [row.name for row in record.rows] == list(MODELS)
    assert table.probabilities.shape == (len(MODELS), record.pairs.n_pairs, 5)
    assert np.allclose(table.probabilities.sum(-1), 1, atol=1e-5)
    tuned = [row for row in record.rows if row.name != LEXICAL]
    assert {row.steps for row in tuned} == {3} and min(row.pairs_seen for row in tuned) > 0
    for row in tuned:
        if row.rate_of is None:
            reached = {one.rate: one.reached for one in row.tried}
            assert list(reached) == [1e-3, 3e-3]
            assert row.rate == max(reached, key=lambda rate: reached[rate] or -1)
            if row.architecture == LSTM:  # whose trials are whole runs
                kept = made / "models" / f"{row.name}-{row.rate:g}"
                facts = read_json(kept / "training.json")
                assert reached[row.rate] == facts["best"]
        else:
            assert row.rate == record.row(row.rate_of).rate and row.tried == ()
    for model in record.pretraining:
        assert (model.first_layers, model.first_steps, model.steps) == (1, 3, 4)
    characters, words, without = record.pretraining
    assert characters.characters == without.characters > 0
    assert words.words == 60 and words.tokens < characters.tokens
    assert without.pair_accuracy is None and not without.pair_objective
    read = {one.model: one for one in record.boundary}
    assert set(read) == {CHARACTERS, WORDS, NO_PAIRS, RANDOM} and read[WORDS].head is None
    one, other = table.boundary[CHARACTERS], table.boundary[RANDOM]
    assert (one.labels == other.labels).all() and len(one.values) == len(one.queries)
    first = study.request.pairs.read_text(encoding="utf-8").splitlines()[1].split("\t")
    stored = (made / "baselines.json").read_text(encoding="utf-8")
    assert first[0] not in stored and first[1] not in stored


def test_what_is_lost_is_made_again_alike(made, study, tmp_path):
    out = tmp_path / "table"
    shutil.copytree(made, out)
    shutil.rmtree(out / "models" / "two-tower")
    (out / "measured" / "graded-two-tower.npz").unlink()
    again = run(replace(study, out=out), notify=lambda line: None)
    table = read_baselines(made)
    assert np.array_equal(table.probabilities, again.probabilities)
    assert [r.sha256 for r in table.record.rows] == [r.sha256 for r in again.record.rows]


def test_a_query_that_is_judged_is_not_trained_on(study, tmp_path):
    request = Request(pairs=study.tuning.pairs[0].file)
    with pytest.raises(ArgumentError, match="are judged too"):
        run(replace(study, request=request, out=tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_a_text_s_logits_do_not_depend_on_its_batch(made):
    pairs = [("北京到上海", "高铁票价"), ("红烧排骨", "家常做法怎么去除衣服上的油渍"), ("一", "斤")]
    for name in (f"{LSTM}-0.003", "bert+lstm"):
        scorer = RivalScorer.open(made / "models" / name, 48)
        together = scorer.logits(pairs)
        alone = np.concatenate([scorer.logits([pair]) for pair in pairs])
        np.testing.assert_allclose(together, alone, atol=1e-5)


def test_towers_start_as_the_encoder_of_the_base(checkpoint_of):
    base = checkpoint_of("bert")
    rival = Rival.new("two-tower", base).eval()
    encoder = AutoModel.from_pretrained(base, attn_implementation="eager").eval()
    text = Side.of([np.array([2, 7, 8, 3]), np.array([2, 9, 3])], 0)
    states = rival._first(text)
    for row, length in ((0, 4), (1, 3)):
        plain = encoder(text.ids[row : row + 1, :length]).last_hidden_state[0, 0]
        torch.testing.assert_close(states[row], plain, atol=1e-5, rtol=0)


def test_both_directions_are_those_of_torch_on_rows_alone():
    torch.manual_seed(0)
    ours, rows, lengths = BiLstm(3, 4), torch.randn(2, 5, 3), torch.tensor([5, 2])
    theirs = torch.nn.LSTM(3, 4, batch_first=True, bidirectional=True)
    for name, value in ours.left_to_right.state_dict().items():
        theirs.state_dict()[name].copy_(value)
        theirs.state_dict()[f"{name}_reverse"].copy_(ours.right_to_left.state_dict()[name])
    states = ours(rows, lengths)
    for row, length in enumerate(lengths.tolist()):
        torch.testing.assert_close(states[row, :length], theirs(rows[row : row + 1, :length])[0][0])
        assert (states[row, length:] == 0).all()


def test_alignment_and_pooling_by_hand():
    a, b = torch.tensor([[[1.0], [0.0]]]), torch.tensor([[[2.0], [4.0], [9.0]]])
    real = torch.tensor([[True, True, False]])
    to_b, to_a = aligned(a, b, torch.ones(1, 2, dtype=torch.bool), real)
    weight = 1 / (1 + np.exp(2.0))
    assert to_b[0, 0, 0].item() == pytest.approx(2 * weight + 4 * (1 - weight))
    assert to_b[0, 1, 0].item() == pytest.approx(3)
    assert to_a[0, 0, 0].item() == pytest.approx(np.exp(2) / (np.exp(2) + 1))
    pools = pooled(torch.tensor([[[-1.0], [-3.0], [0.0]]]), real)
    assert pools.tolist() == [[-2.0, -1.0]]


def test_words_are_tokens_and_rarer_ones_their_characters(checkpoint_of):
    like = open_tokenizer(checkpoint_of("bert"))
    made = word_tokenizer(like, ["北京到上海高铁", "北京到上海票价"], 3)
    (row,) = PairTokenizer(made, 32).encode([(spaced("北京高铁"), spaced("上海 到"))])
    tokens = ["[CLS]", "北京", "高", "铁", "[SEP]", "上海", "到", "[SEP]"]
    assert made.convert_ids_to_tokens(row.input_ids) == tokens
    assert row.side == [-1, 0, 0, 0, -1, 1, 1, -1]


def test_stacked_layers_are_copies(made, tmp_path):
    shallow = made / "pretraining" / f"{CHARACTERS}-1-layers"
    deep = open_for_pretraining(stacked(shallow, 3, tmp_path / "deep")).state_dict()
    for name, value in open_for_pretraining(shallow).state_dict().items():
        for layer in range(3):
            assert torch.equal(deep[name.replace("layer.0.", f"layer.{layer}.")], value)
    with pytest.raises(ArgumentError, match="cannot be stacked"):
        stacked(made / "pretraining" / CHARACTERS, 3, tmp_path / "other")


def test_the_probe_reads_it(made, study, tmp_path):
    model, out = made / "models" / CHARACTERS, tmp_path / "out"
    command = ["probe", "baselines", "--model", str(model), "--pairs", str(study.request.pairs)]
    done = CliRunner().invoke(app, [*command, "--baseline-table", str(made), "--out", str(out)])
    assert done.exit_code == 0, done.output
    stored = json.loads((out / "probes" / "baselines.json").read_text(encoding="utf-8"))
    names = {measurement["id"] for measurement in stored["measurements"]}
    assert {"over_lstm", "words_of_bert", "words_of_lstm"} <= names
