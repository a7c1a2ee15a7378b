"""The mean of models of one shape."""

from __future__ import annotations

import pytest
import torch

from qt_bert.encoder import open_checkpoint
from qt_bert.errors import ArgumentError
from qt_bert.training.averaging import average_models


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
