"""The mean of models of one shape."""

from __future__ import annotations

import pytest
import torch

from qt_bert.errors import ArgumentError
from qt_bert.models.checkpoint import open_checkpoint
from qt_bert.training.selection import average_models


def test_every_weight_is_the_mean(checkpoint_of, tmp_path):
    folders = [checkpoint_of("bert", seed=seed) for seed in (0, 1, 2)]
    out = average_models(folders, tmp_path / "mean")
    states = [open_checkpoint(f).model.state_dict() for f in folders]
    for name, got in open_checkpoint(out).model.state_dict().items():
        expected = sum(state[name] for state in states) / 3
        torch.testing.assert_close(got, expected, atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("other", [{"labels": 3}, {"hidden": 32}, {"layers": 1}])
def test_models_that_differ_have_no_mean(checkpoint_of, tmp_path, other):
    with pytest.raises(ArgumentError, match="differ in shape"):
        average_models([checkpoint_of(), checkpoint_of("bert", **other)], tmp_path / "mean")


def test_one_model_is_no_average(checkpoint_of, tmp_path):
    with pytest.raises(ArgumentError, match="two models or more"):
        average_models([checkpoint_of()], tmp_path / "mean")


def test_offline_models_of_one_block_keep_it(offline_checkpoint_of, tmp_path):
    folders = [offline_checkpoint_of(seed=seed) for seed in (0, 1)]
    out = open_checkpoint(average_models(folders, tmp_path / "mean"))
    assert out.offline == open_checkpoint(folders[0]).offline and out.offline is not None


@pytest.mark.parametrize("other", [None, {"start": 13}, {"below": 0}])
def test_models_that_read_pairs_in_different_ways_have_no_mean(
    offline_checkpoint_of, checkpoint_of, tmp_path, other
):
    folder = checkpoint_of() if other is None else offline_checkpoint_of(**other)
    with pytest.raises(ArgumentError, match="read pairs in different ways"):
        average_models([folder, offline_checkpoint_of()], tmp_path / "mean")
