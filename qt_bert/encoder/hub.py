"""Where a model's folder lies: here, or after a download from the hub."""

from __future__ import annotations

import re
from pathlib import Path

from qt_bert.errors import CheckpointError

_HUB_FILES = ["*.safetensors", "*.json", "*.txt", "*.model"]


def resolve_folder(model: str | Path) -> Path:
    """A local folder as it is; otherwise a hub name whose weights (never code) are fetched.

    Raises CheckpointError where neither is there.
    """
    path = Path(model)
    if path.exists() or not re.fullmatch(r"[\w.-]+/[\w.-]+", str(model)):
        return path
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(str(model), allow_patterns=_HUB_FILES))
    except Exception as error:  # the hub client has no one base class for what can go wrong
        raise CheckpointError(
            f"{model}: no such folder, and it could not be fetched from the hub "
            f"({type(error).__name__}); give a local folder"
        ) from error
