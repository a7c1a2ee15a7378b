"""The type that an offline model has in its config.json, by which no other library opens it.

transformers knows neither the layers that read the texts apart nor where titles begin: under the
family's own `model_type` it would open the folder and give other grades without a word. A type that it
does not know it refuses, by name.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from qt_bert.files import read_json, write_json

_MARK = "qt_bert-offline-"


def mark(folder: Path) -> None:
    """Give the model in `folder`, saved as its family's, the type of an offline model."""
    path = folder / "config.json"
    config = read_json(path)
    write_json(path, config | {"model_type": f"{_MARK}{config['model_type']}"})


def is_marked(config: dict[str, Any]) -> bool:
    """Whether a config.json is an offline model's."""
    return str(config.get("model_type")).startswith(_MARK)


def unmarked(config: dict[str, Any]) -> dict[str, Any]:
    """A config.json as its family has it."""
    if not is_marked(config):
        return config
    return config | {"model_type": config["model_type"].removeprefix(_MARK)}
