"""A pool of small models: a classifier, the encoder it was tuned from, a one-logit model."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from qt_bert.page.model import ModelPool


@pytest.fixture(scope="session")
def models(checkpoint_of: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `before` (no classifier), `score` (one logit), `tuned`, and other things."""
    from safetensors.numpy import load_file, save_file

    folder = tmp_path_factory.mktemp("shelf")
    shutil.copytree(checkpoint_of(layers=3), folder / "tuned")
    (folder / "tuned" / "training.json").write_text('{"base": "before"}', encoding="utf-8")
    shutil.copytree(checkpoint_of(labels=1), folder / "score")
    shutil.copytree(checkpoint_of(layers=3), folder / "before")
    weights = folder / "before" / "model.safetensors"
    kept = {k: v for k, v in load_file(weights).items() if not k.startswith("classifier.")}
    save_file(kept, weights, metadata={"format": "pt"})
    config = folder / "before" / "config.json"
    config.write_text(config.read_text().replace("BertForSequenceClassification", "BertModel"))
    (folder / "tuned.training").mkdir()
    (folder / "notes.txt").write_text("no model")
    return folder


@pytest.fixture(scope="session")
def pool(models: Path) -> ModelPool:
    """The folder's models, then those that ship."""
    return ModelPool(models)
