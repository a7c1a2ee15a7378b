"""Where a training run works: `OUT.training` beside the finished folder `OUT`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from qt_bert.errors import RunFolderError
from qt_bert.files import read_json
from qt_bert.training.state import STATE_FILE


def workspace_of(out: Path) -> Path:
    """`OUT.training`."""
    return out.with_name(f"{out.name}.training")


def is_finished(out: Path) -> bool:
    """Whether `out` is a finished folder of a training command."""
    return (out / "training.json").exists()


def finished_facts(out: Path) -> dict[str, Any]:
    """What the finished folder says of its making."""
    facts: dict[str, Any] = read_json(out / "training.json")
    return facts


def open_workspace(out: Path, *, resume: bool, overwrite: bool) -> Path:
    """The folder a run keeps its state and log in, `OUT.training`.

    Raises RunFolderError where `out` holds anything, or a run was begun, and neither flag says what
    to do with it.
    """
    work = workspace_of(out)
    finished = out.exists() and any(out.iterdir())
    if overwrite:
        shutil.rmtree(work, ignore_errors=True)
    elif finished:
        raise RunFolderError(f"{out} is not empty; choose another --out, or --overwrite it")
    elif (work / STATE_FILE).exists() and not resume:
        raise RunFolderError(
            f"{work} holds an unfinished run; --resume goes on, --overwrite starts anew"
        )
    work.mkdir(parents=True, exist_ok=True)
    return work


def training_texts(work: Path, facts: dict[str, Any]) -> dict[str, str]:
    """What a finished folder says of its making: `training.json` and the log."""
    return {
        "training.json": json.dumps(facts, ensure_ascii=False, indent=1) + "\n",
        "training_log.jsonl": (work / "log.jsonl").read_text(encoding="utf-8"),
    }
