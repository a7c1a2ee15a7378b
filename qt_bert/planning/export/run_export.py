"""`qt-bert export`: a folder with the ONNX file, checked, or nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from qt_bert.encoder import Checkpoint
from qt_bert.encoder.saving import check_place
from qt_bert.files import atomic_folder, sha256_file
from qt_bert.planning.export.check import check_export
from qt_bert.planning.export.extra import EXPORTING, need, versions
from qt_bert.planning.export.int8 import GradedPairs, int8_loss, write_int8
from qt_bert.planning.export.session import INT8_MODEL, MODEL, OnnxScorer
from qt_bert.planning.export.to_onnx import OPSET, input_names, write_onnx
from qt_bert.planning.teacher import check_apart
from qt_bert.results.codec import decode
from qt_bert.results.evaluation import JudgedModel
from qt_bert.results.export import EXPORT, ExportCheck, ExportFile
from qt_bert.sources import installed_versions


def check_ready(out: Path, overwrite: bool) -> None:
    """Raise where nothing can be exported to `out`: RunFolderError as `check_place` does,
    ArgumentError where packages are missing."""
    need(EXPORTING)
    check_place(out, overwrite)


def export_onnx(
    checkpoint: Checkpoint,
    out: Path,
    *,
    int8_on: GradedPairs | None = None,
    overwrite: bool = False,
) -> ExportFile:
    """Write `checkpoint` (opened in float32, compact) to the folder `out`: the whole, or nothing.

    The ONNX file, the tokenizer, `qt_bert.json`, `kept.json` of a smaller model and `export.json`.
    With `int8_on` also a file in eight bits, and what it costs on these pairs.

    Raises as `check_ready` and `check_apart` do, GuardError where the file differs from torch, and
    as `int8_loss` does.
    """
    check_ready(out, overwrite)
    check_apart(out, checkpoint.folder)
    with atomic_folder(out) as folder:
        write_onnx(checkpoint, folder / MODEL)
        check = check_export(checkpoint, folder / MODEL)
        _write_beside(checkpoint, folder)
        if int8_on is not None:
            write_int8(folder / MODEL, folder / INT8_MODEL)
        made = _export_file(checkpoint, folder, check)
        made.write(folder)
        if int8_on is not None:
            exact, short = (OnnxScorer(folder / name) for name in (MODEL, INT8_MODEL))
            made = replace(made, int8=int8_loss(exact, short, int8_on))
            made.write(folder)
    return made


def _write_beside(checkpoint: Checkpoint, folder: Path) -> None:
    checkpoint.tokenizer.save_pretrained(folder)
    checkpoint.settings.write(folder)
    if checkpoint.kept is not None:
        checkpoint.kept.write(folder)


def _export_file(checkpoint: Checkpoint, folder: Path, check: ExportCheck) -> ExportFile:
    files = sorted(file for file in folder.iterdir() if file.name != EXPORT)
    return ExportFile(
        model=decode(JudgedModel, checkpoint.describe()),
        family=checkpoint.family.model_type,
        opset=OPSET,
        inputs=input_names(checkpoint),
        pad=checkpoint.pad,
        positions=checkpoint.longest,
        versions=installed_versions() | versions(),
        sha256={file.name: sha256_file(file) for file in files},
        check=check,
    )
