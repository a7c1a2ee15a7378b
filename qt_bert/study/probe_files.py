"""Files that stages read beside model and pairs, and how they enter their keys."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path

from qt_bert.files import sha256_file


@dataclass(frozen=True, kw_only=True)
class ProbeFiles:
    """Where they lie; each may be missing.

    `discovery`: pairs to choose on, where they are a file of their own. `base`: the folder of the
    model before fine-tuning. `second`: that of a model tuned from it with another seed. `userdict`:
    further words for the segmenter. `gold`: a segmented file. `reference`: pairs for mean contexts.
    `compared`: the folder of a model to set beside this one.
    """

    discovery: Path | None = None
    base: Path | None = None
    second: Path | None = None
    userdict: Path | None = None
    gold: Path | None = None
    reference: Path | None = None
    compared: Path | None = None

    def arguments(self) -> dict[str, dict[str, str] | None]:
        """Name and SHA-256 of each, as arguments of a run.

        Raises CheckpointError where `base`, `second` or `compared` is no model, and OSError for a file that is not there.
        """
        return {
            field.name: _described(field.name, getattr(self, field.name)) for field in fields(self)
        }


def _described(name: str, path: Path | None) -> dict[str, str] | None:
    if path is None:
        return None
    hashed = _model if name in ("base", "second", "compared") else sha256_file
    return {"name": path.name, "sha256": hashed(path)}


def _model(folder: Path) -> str:
    from qt_bert.encoder.manifest import folder_sha256
    from qt_bert.encoder.verify import verify_folder

    verify_folder(folder)
    return folder_sha256(folder)
