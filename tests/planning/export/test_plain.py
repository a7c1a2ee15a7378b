"""Folders of `export_transformers`: what transformers makes of them by itself."""

import numpy as np
import pytest
from transformers import AutoConfig

from qt_bert.errors import ArgumentError, CheckpointError, EquivalenceError, RunFolderError
from qt_bert.models.checkpoint import smaller_checkpoint
from qt_bert.models.opening import open_checkpoint
from qt_bert.planning import export
from qt_bert.planning.export import export_transformers
from qt_bert.planning.prune import save_smaller
from qt_bert.results.kept import KeptLayer
from qt_bert.scoring.bulk import Scorer
from tests.conftest import FAMILIES, GROUPED
from tests.models.reference import folder_logits

OWN = {name: {"num_key_value_heads": 2} for name in GROUPED}
OWN["deberta-v2"] = {"share_att_key": False}
KEPT = (
    KeptLayer(layer=0, heads=(2, 3), units=5),
    KeptLayer(layer=1, heads=()),
    KeptLayer(layer=2, heads=(0, 1), units=9),
)


@pytest.fixture
def pruned(checkpoint_of, tmp_path):
    """`pruned("gte", KEPT)`: saved and opened again as the command does."""

    def build(family, kept):
        teacher = open_checkpoint(checkpoint_of(family, layers=3, heads=4, **OWN.get(family, {})))
        narrow = {layer.layer: layer.units for layer in kept if layer.units is not None}
        units = {layer: range(3, 3 + units) for layer, units in narrow.items()}
        small = smaller_checkpoint(teacher, kept, units=units)
        return open_checkpoint(save_smaller(tmp_path / "small", small), compact=True)

    return build


@pytest.mark.parametrize("family", FAMILIES)
def test_transformers_gives_the_pruned_models_logits(pruned, texts, tmp_path, family):
    small = pruned(family, KEPT)
    folder = tmp_path / "plain"
    record = export_transformers(small, folder)
    short = [pair for pair in texts if all(pair) and len(pair[1]) < 40]
    logits = folder_logits(folder, short, padded=True)
    np.testing.assert_allclose(logits, Scorer(small).logits(short), atol=2e-5)
    config = AutoConfig.from_pretrained(folder)
    assert (config.num_attention_heads, config.intermediate_size) == (4, 32)
    assert config.pad_token_id == small.pad
    assert record["difference"] <= 1e-5 * max(1, np.abs(logits).max())
    before, after = record["weights"]
    assert before < after == (folder / "model.safetensors").stat().st_size
    assert open_checkpoint(folder).kept is None


def test_a_weight_that_no_config_has_is_refused(pruned, tmp_path):
    # The norm of a lowest layer that was not the lowest.
    small = pruned("modernbert", KEPT[1:])
    with pytest.raises(CheckpointError, match="no config of a .* export it as ONNX"):
        export_transformers(small, tmp_path / "plain")
    assert not (tmp_path / "plain").exists()


def test_nothing_is_written_that_is_not_the_model(pruned, tmp_path, monkeypatch):
    small = pruned("bert", KEPT)
    with pytest.raises(ArgumentError, match="which is read"):
        export_transformers(small, small.folder, overwrite=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "note").touch()
    with pytest.raises(RunFolderError, match="not empty"):
        export_transformers(small, tmp_path / "other")
    monkeypatch.setattr(export, "PLAIN_BOUND", -1.0)
    with pytest.raises(EquivalenceError, match="nothing was written"):
        export_transformers(small, tmp_path / "new" / "plain")
    assert list((tmp_path / "new").iterdir()) == []
