"""Where a training run works: `OUT.training` beside the finished folder `OUT`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from qt_bert.errors import ArgumentError, RunFolderError
from qt_bert.files import read_json
from qt_bert.training.state import STATE_FILE, same_settings

_FACTS = "training.json"
_REPLACES = "replaces-a-finished-folder"


def workspace_of(out: Path) -> Path:
    """`OUT.training`. Raises ArgumentError for an `out` without a name of its own."""
    if not out.name:
        raise ArgumentError(f"--out {out}: give the name of a folder to make")
    return out.with_name(f"{out.name}.training")


def is_finished(out: Path) -> bool:
    """Whether `out` is a finished folder, and no run that replaces it was begun."""
    return (out / _FACTS).exists() and not (workspace_of(out) / _REPLACES).exists()


def finished_facts(out: Path, asked: dict[str, Any]) -> dict[str, Any]:
    """What the finished folder says of its making; RunFolderError where `asked` differs from it."""
    facts: dict[str, Any] = read_json(out / _FACTS)
    same_settings(out, facts.get("asked", {}), json.loads(json.dumps(asked)))
    return facts


def open_workspace(out: Path, *, resume: bool, overwrite: bool) -> Path:
    """The folder a run keeps its state and log in, `OUT.training`.

    Raises RunFolderError where `out` holds anything, or a run was begun, and neither flag says what
    to do with it.
    """
    work = workspace_of(out)
    filled = out.exists() and any(out.iterdir())
    replaces = (work / _REPLACES).exists()
    if overwrite and not (resume and replaces):
        work.mkdir(parents=True, exist_ok=True)
        if filled:  # before all else: killed in between, the run that was asked for goes on
            (work / _REPLACES).touch()
        _clear(work, keep={_REPLACES} if filled else set())
    elif filled and not (resume and replaces):
        raise RunFolderError(f"{out} is not empty; choose another --out, or --overwrite it")
    elif (work / STATE_FILE).exists() and not resume:
        raise RunFolderError(
            f"{work} holds an unfinished run; --resume goes on, --overwrite starts anew"
        )
    work.mkdir(parents=True, exist_ok=True)
    return work


def _clear(work: Path, keep: set[str]) -> None:
    """Remove what an earlier run left."""
    for path in work.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name not in keep:
            path.unlink()


def close_workspace(out: Path) -> None:
    """The run is finished: what stands in `out` is its own."""
    (workspace_of(out) / _REPLACES).unlink(missing_ok=True)


def training_texts(work: Path, facts: dict[str, Any]) -> dict[str, str]:
    """What a finished folder says of its making: `training.json` and the log."""
    return {
        _FACTS: json.dumps(facts, ensure_ascii=False, indent=1) + "\n",
        "training_log.jsonl": (work / "log.jsonl").read_text(encoding="utf-8"),
    }
