"""The two checkpoints that ship: plain folders, verified, with a card."""

import json

import numpy as np
import pytest
import torch

from qt_bert.data.reader import read_pairs
from qt_bert.models.folder import verify_folder, weight_shapes
from qt_bert.models.opening import open_checkpoint
from qt_bert.scoring.bulk import Scorer
from qt_bert.shipped import GRADED, PRETRAINED, TEST, shipped

BOTH = (PRETRAINED, GRADED)


@pytest.mark.parametrize("name", BOTH)
def test_the_folder_is_whole_small_and_described(name):
    folder = shipped(name)
    config, family = verify_folder(folder)
    assert family.model_type == "bert"
    assert (config["num_hidden_layers"], config["num_attention_heads"]) == (12, 12)
    assert sum(f.stat().st_size for f in folder.iterdir()) <= 52_000_000
    for needed in ("README.md", "manifest.json", "qt_bert.json", "training.json"):
        assert (folder / needed).exists(), needed
    listed = json.loads((folder / "manifest.json").read_text())["sha256"]
    assert set(listed) == {f.name for f in folder.iterdir()} - {"manifest.json", "heads.json"}
    assert "auxiliar" not in " ".join(weight_shapes(folder))


def test_the_auto_classes_open_both():
    from transformers import AutoModelForPreTraining, AutoModelForSequenceClassification

    _, info = AutoModelForPreTraining.from_pretrained(shipped(PRETRAINED), output_loading_info=True)
    assert not info["missing_keys"]
    model, info = AutoModelForSequenceClassification.from_pretrained(
        shipped(GRADED), output_loading_info=True
    )
    assert not info["missing_keys"] and model.config.num_labels == 5
    assert model.dtype == torch.float32


def test_cross_encoder_opens_graded_and_agrees():
    from sentence_transformers import CrossEncoder

    texts = [(p.query, p.title) for p in read_pairs(shipped(TEST))][:20]
    theirs = CrossEncoder(str(shipped(GRADED)), max_length=128, device="cpu")
    expected = theirs.predict(texts, activation_fn=torch.nn.Identity(), show_progress_bar=False)
    got = Scorer(open_checkpoint(shipped(GRADED))).logits(texts)
    np.testing.assert_allclose(got, expected, atol=1e-4)


def test_the_articles_case_is_graded_and_its_shuffle_lower():
    import qt_bert

    grader = qt_bert.load()
    straight = grader.grade("京东小哥", "京东小哥最近在干嘛").expected
    shuffled = grader.grade("京东小哥", "近东嘛最都在干哥小京").expected
    assert straight > shuffled + 0.3
