"""Pretraining on words, and without the pair objective, on a made corpus."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from qt_bert.encoder import open_tokenizer
from qt_bert.errors import ArgumentError, RunFolderError
from qt_bert.pairs.words import is_of_words
from qt_bert.training.corpus import load_corpus
from qt_bert.training.pretrain import PretrainSettings, new_model
from qt_bert.training.pretrain_batches import BatchShape, Special, batches
from qt_bert.training.run_pretrain import NewShape, run_pretrain
from qt_bert.training.sources import PairSource
from tests.study.baselines.small import graded, texts

SHAPE = NewShape(layers=1, heads=2, hidden=16, positions=48)
SETTINGS = PretrainSettings(
    steps=3,
    lr=1e-3,
    warmup=1,
    dtype="float32",
    save_every=1,
    log_every=1,
    compile=False,
    shape=BatchShape(slots=256, short=16, long=48),
)


@pytest.fixture
def pretrained(checkpoint_of: Callable[..., Path], tmp_path: Path) -> Callable[..., Any]:
    """Pretrain on made text: the folder and its facts."""
    shard = tmp_path / "text.txt"
    shard.write_text("\n".join(texts(300, 1, 20)), encoding="utf-8")
    pairs = graded(tmp_path / "pairs.tsv", 20, 2)

    def run(name: str, settings: PretrainSettings = SETTINGS, **options: Any) -> Any:
        out, options = tmp_path / name, {"shape": SHAPE} | options
        facts = run_pretrain(
            checkpoint_of("bert"), [shard], [PairSource(pairs)], out, settings, **options
        )
        return out, facts

    return run


def test_a_model_of_words_reads_words_and_says_so(pretrained: Callable[..., Any]) -> None:
    out, facts = pretrained("words", words=40)
    tokenizer = open_tokenizer(out)
    assert is_of_words(tokenizer)
    config = json.loads((out / "config.json").read_text(encoding="utf-8"))
    assert config["vocab_size"] == len(tokenizer)
    text = facts["figures"]["tokens"]
    assert facts["figures"]["characters"] > 0 and facts["figures"]["step"] == 3 and text > 0
    assert facts["asked"]["words"] == 40


def test_words_go_on_where_they_stopped_and_are_refused_with_another_number(
    pretrained: Callable[..., Any],
) -> None:
    whole, _ = pretrained("whole", words=40)
    pretrained("parted", words=40, stop_at=1)
    weights = (whole / "model.safetensors").read_bytes()
    with pytest.raises(RunFolderError):
        pretrained("parted", words=40, resume=True)  # finished, with another stop
    again, _ = pretrained("again", words=40)
    assert (again / "model.safetensors").read_bytes() == weights
    with pytest.raises(RunFolderError):
        pretrained("whole", words=30, resume=True)


def test_words_need_a_new_model(pretrained: Callable[..., Any]) -> None:
    with pytest.raises(ArgumentError, match="--words makes a new vocabulary"):
        pretrained("old", words=40, shape=None)


def test_characters_and_words_see_the_same_texts_in_the_same_order(
    checkpoint_of: Callable[..., Path], pretrained: Callable[..., Any], tmp_path: Path
) -> None:
    words, _ = pretrained("words", words=40)
    shard = tmp_path / "text.txt"
    both = [
        load_corpus(folder, [shard], [], tmp_path / f"{n}.npz").fragments
        for n, folder in enumerate((checkpoint_of("bert"), words))
    ]
    assert len(both[0]) == len(both[1]) == 300
    spelled = [
        "".join(open_tokenizer(folder).convert_ids_to_tokens(store[7].tolist())).replace("##", "")
        for folder, store in zip((checkpoint_of("bert"), words), both, strict=True)
    ]
    assert spelled[0] == spelled[1]
    assert len(both[1][7]) <= len(both[0][7])


def test_without_the_pair_objective_only_its_head_is_left_untouched(
    pretrained: Callable[..., Any],
) -> None:
    from safetensors.torch import load_file

    out, _ = pretrained("no_pairs", replace(SETTINGS, pair_objective=False))
    start = new_model(
        vocabulary=len(open_tokenizer(out)), layers=1, heads=2, hidden=16, positions=48, seed=0
    ).state_dict()
    end = load_file(out / "model.safetensors")
    name = "cls.seq_relationship.bias"
    assert torch.equal(end[name].float(), start[name].half().float())
    moved = "bert.encoder.layer.0.attention.self.query.weight"
    assert not torch.allclose(end[moved].float(), start[moved], atol=1e-4)


def test_without_the_pair_objective_the_batches_are_the_same(
    pretrained: Callable[..., Any],
) -> None:
    _, with_pairs = pretrained("pairs")
    _, without = pretrained("no_pairs", replace(SETTINGS, pair_objective=False))
    seen = ("tokens", "characters", "step")
    assert [with_pairs["figures"][k] for k in seen] == [without["figures"][k] for k in seen]
    assert with_pairs["figures"]["pair_loss"] != without["figures"]["pair_loss"]


def test_characters_are_counted_by_what_a_token_spells() -> None:
    from qt_bert.training.corpus import Corpus, TokenStore

    ids = np.tile(np.array([5, 6, 7], np.uint16), 60)
    store = TokenStore(ids, np.arange(0, 181, 6))
    corpus = Corpus(
        store, TokenStore(ids[:0], np.zeros(1, int)), TokenStore(ids[:0], np.zeros(1, int))
    )
    lengths = np.array([1, 1, 1, 1, 1, 1, 2, 4])
    shape = BatchShape(slots=32, short=8, long=16, negative_share=0.0)
    plain = next(batches(corpus, Special(2, 3, 0, 4, 8), shape, 0))
    spelled = next(batches(corpus, Special(2, 3, 0, 4, 8, lengths), shape, 0))
    text = plain.characters
    assert text == plain.real_tokens - 3 * int(plain.cls_weight.sum())
    # as many of each of the three tokens, of 1, 2 and 4 characters
    assert spelled.characters == pytest.approx(text * 7 / 3)


def test_folders_from_before_the_pair_objective_could_be_left_out_go_on(
    pretrained: Callable[..., Any],
) -> None:
    out, facts = pretrained("old")
    stored = json.loads((out / "training.json").read_text(encoding="utf-8"))
    assert "pair_objective" not in stored["asked"]["settings"]
    assert pretrained("old", resume=True)[1]["figures"] == stored["figures"]
    _, without = pretrained("without", replace(SETTINGS, pair_objective=False))
    assert without["asked"]["settings"]["pair_objective"] is False
