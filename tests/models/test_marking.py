"""An offline model's folder: no other library opens it as a plain model, and here it opens as saved."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from transformers import AutoModelForSequenceClassification

from qt_bert.errors import CheckpointError
from qt_bert.models.card import CARD, mark_of, unmarked
from qt_bert.models.checkpoint import open_checkpoint, save_checkpoint
from qt_bert.models.folder import MANIFEST, verify_folder
from qt_bert.models.loading import open_for_tuning
from qt_bert.scoring.bulk import Scorer
from tests.conftest import FAMILIES

TEXTS = [("北京到上海高铁票价", "北京上海高铁票多少钱"), ("狗", "猫追狗" * 12)]
Folder = Callable[..., Path]


@pytest.fixture
def saved_of(offline_checkpoint_of, tmp_path) -> Folder:
    """`saved_of("bert")`: an offline model saved anew, in its own type."""

    def build(family="bert"):
        one = open_checkpoint(offline_checkpoint_of(family))
        out = tmp_path / family
        return save_checkpoint(out, one.model, one.tokenizer, settings=one.settings)

    return build


@pytest.mark.parametrize("family", FAMILIES)
def test_it_opens_as_it_was_saved(offline_checkpoint_of, saved_of, family):
    before, after = (open_checkpoint(f) for f in (offline_checkpoint_of(family), saved_of(family)))
    assert after.offline == before.offline and after.family == before.family
    own, stored = (c.model.config.to_dict() | {"_name_or_path": ""} for c in (before, after))
    assert stored == own
    for text in TEXTS:
        tokens = [c.pair_tokenizer().encode([text])[0].input_ids for c in (before, after)]
        assert tokens[0] == tokens[1]
    logits = [Scorer(c).logits(TEXTS) for c in (before, after)]
    np.testing.assert_allclose(*logits, atol=2e-2)  # weights are stored in float16


def test_transformers_refuses_it_by_name(saved_of):
    with pytest.raises(ValueError, match="model type `qt_bert-offline-bert`"):
        AutoModelForSequenceClassification.from_pretrained(saved_of())


def test_it_is_a_base_of_its_family(saved_of):
    folder = saved_of()
    model, family = open_for_tuning(folder, 5)
    assert family.model_type == model.config.model_type == "bert"
    assert verify_folder(folder)[0]["model_type"] == "bert"


def test_a_plain_model_keeps_its_type(checkpoint_of, tmp_path):
    one = open_checkpoint(checkpoint_of())
    out = save_checkpoint(tmp_path / "plain", one.model, one.tokenizer, settings=one.settings)
    config = json.loads((out / "config.json").read_text(encoding="utf-8"))
    assert config["model_type"] == "bert" and mark_of(config) is None
    assert unmarked(config) is config
    AutoModelForSequenceClassification.from_pretrained(out)


@pytest.mark.parametrize("card", [None, {"schema": 1, "max_length": 48}])
def test_without_its_block_it_is_refused(saved_of, card):
    folder = saved_of()
    (folder / MANIFEST).unlink()
    (folder / CARD).unlink()
    if card is not None:
        (folder / CARD).write_text(json.dumps(card), encoding="utf-8")
    with pytest.raises(CheckpointError, match="offline model without `offline` in qt_bert.json"):
        open_checkpoint(folder)
