"""Layers repeated: by hand, through `run_pretrain`, and what cannot be stacked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from qt_bert.encoder.tuning import open_for_pretraining
from qt_bert.errors import ArgumentError, RunFolderError
from qt_bert.training.pretrain import PretrainSettings, new_model
from qt_bert.training.pretrain_batches import BatchShape
from qt_bert.training.run_pretrain import NewShape, run_pretrain
from qt_bert.training.stacking import stacked
from tests.study.baselines.small import texts

SETTINGS = PretrainSettings(
    steps=2, warmup=1, compile=False, shape=BatchShape(slots=64, short=16, long=32)
)


def test_layers_are_repeated_in_order() -> None:
    model = new_model(vocabulary=30, layers=2, heads=2, hidden=8, positions=16, seed=3)
    deeper = stacked(model, 6)
    own, more = model.bert.encoder.layer, deeper.bert.encoder.layer
    for number in range(6):
        for name, value in more[number].state_dict().items():
            assert torch.equal(value, own[number % 2].state_dict()[name])
    for part in ("embeddings", "pooler"):
        for name, value in getattr(deeper.bert, part).state_dict().items():
            assert torch.equal(value, getattr(model.bert, part).state_dict()[name])
    assert torch.equal(deeper.cls.predictions.bias, model.cls.predictions.bias)
    tied = deeper.cls.predictions.decoder.weight, deeper.bert.embeddings.word_embeddings.weight
    assert tied[0].data_ptr() == tied[1].data_ptr()
    assert deeper.config.num_hidden_layers == 6 and model.config.num_hidden_layers == 2
    deeper.bert.encoder.layer[0].output.dense.weight.data.zero_()
    assert own[0].output.dense.weight.abs().sum() > 0  # copies, not views
    assert deeper.bert.encoder.layer[2].output.dense.weight.abs().sum() > 0


@pytest.mark.parametrize("layers", [1, 3, 0])
def test_no_multiple_is_refused(layers: int) -> None:
    model = new_model(vocabulary=30, layers=2, heads=2, hidden=8, positions=16, seed=3)
    with pytest.raises(ArgumentError, match="give a multiple of 2"):
        stacked(model, layers)


def test_pretraining_goes_on_with_more_layers(
    checkpoint_of: Callable[..., Path], tmp_path: Path
) -> None:
    init, text = checkpoint_of(), tmp_path / "text.txt"
    text.write_text("\n".join(texts(100, 1, 20)), encoding="utf-8")
    shallow, deep = tmp_path / "shallow", tmp_path / "deep"
    shape = NewShape(layers=1, heads=2, hidden=16, positions=32)
    run_pretrain(init, [text], [], shallow, SETTINGS, shape=shape)
    facts = run_pretrain(shallow, [text], [], deep, SETTINGS, stack=3)
    assert facts["asked"]["stack"] == 3 and facts["figures"]["step"] == 2
    model = open_for_pretraining(deep)
    assert model.config.num_hidden_layers == 3
    # Two small steps away from what it was stacked of.
    first = open_for_pretraining(shallow).bert.encoder.layer[0].output.dense.weight
    for layer in model.bert.encoder.layer:
        moved = (layer.output.dense.weight - first).abs().max()
        assert 0 < moved < 0.05
    again = run_pretrain(shallow, [text], [], deep, SETTINGS, stack=3, resume=True)
    assert again["asked"] == facts["asked"]
    with pytest.raises(RunFolderError):
        run_pretrain(shallow, [text], [], deep, SETTINGS, stack=2, resume=True)
    with pytest.raises(ArgumentError, match="--stack repeats"):
        run_pretrain(init, [text], [], tmp_path / "both", SETTINGS, shape=shape, stack=2)
