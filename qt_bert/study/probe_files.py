"""Files that stages read beside model and pairs, and how they enter their keys."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from qt_bert.files import sha256_file
from qt_bert.probes.split import HeldOutFile

_MODELS = ("base", "second", "compared")
RECORDS = {"initialisations": "initialisations.json", "baseline_table": "baselines.json"}
"""Folders that a study left, and the file in each that says what it measured."""


@dataclass(frozen=True, kw_only=True)
class ProbeFiles:
    """Where they lie; each may be missing.

    `discovery`: pairs to choose on, where they are a file of their own. `base`: the folder of the
    model before fine-tuning. `second`: that of a model tuned from it with another seed. `userdict`:
    further words for the segmenter. `gold`: a segmented file. `reference`: pairs for mean contexts.
    `compared`: the folder of a model to set beside this one. `treebanks`: CoNLL-U files. `texts`:
    pairs of other queries. `held_out_files`: graded pairs for figures alone. `initialisations` and
    `baseline_table`: the folders of the two studies of that name. `heads`: those to take for the
    matching ones, as text. `cases`: queries with two titles each. `band_from`: pairs to measure a
    band on. `corpus`: texts to count words in.
    """

    discovery: Path | None = None
    base: Path | None = None
    second: Path | None = None
    userdict: Path | None = None
    gold: Path | None = None
    reference: Path | None = None
    compared: Path | None = None
    treebanks: tuple[Path, ...] = ()
    texts: Path | None = None
    held_out_files: tuple[HeldOutFile, ...] = ()
    initialisations: Path | None = None
    baseline_table: Path | None = None
    heads: str | None = None
    cases: Path | None = None
    band_from: Path | None = None
    corpus: Path | None = None

    def arguments(self) -> dict[str, Any]:
        """Name and SHA-256 of each, as arguments of a run.

        Raises CheckpointError where `base`, `second` or `compared` is no model, and OSError for a file that is not there.
        """
        return {
            field.name: _described(field.name, getattr(self, field.name)) for field in fields(self)
        }


def _described(name: str, given: Any) -> Any:
    if given is None or isinstance(given, str):
        return given
    if isinstance(given, tuple):
        return [_described(name, one) for one in given]
    if isinstance(given, HeldOutFile):
        return {**_described(name, given.path), "reader": asdict(given.reader)}
    return {"name": given.name, "sha256": _sha256(name, given)}


def _sha256(name: str, path: Path) -> str:
    if name in _MODELS:
        return _model(path)
    return sha256_file(path / RECORDS[name] if name in RECORDS else path)


def _model(folder: Path) -> str:
    from qt_bert.encoder.manifest import folder_sha256
    from qt_bert.encoder.verify import verify_folder

    verify_folder(folder)
    return folder_sha256(folder)
