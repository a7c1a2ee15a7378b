"""The workspace of a training run, the state it resumes from, and its log."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file

from qt_bert.codec import read_result
from qt_bert.errors import ArgumentError, RunFolderError
from qt_bert.files import atomic_write, is_vacant
from qt_bert.models.checkpoint import check_place
from qt_bert.resume import begun_otherwise, differing, goes_on


class RunLog:
    """Appends records that carry a `step`; records beyond `keep_until` are dropped at the start."""

    def __init__(self, path: Path, keep_until: int = 0) -> None:
        self.path = path
        kept = [r for r in read_log(path) if r["step"] <= keep_until]
        with atomic_write(path) as temporary:
            temporary.write_text("".join(json.dumps(r) + "\n" for r in kept), encoding="utf-8")

    def last(self) -> dict[str, Any]:
        """The newest record, or nothing."""
        return next(reversed(read_log(self.path)), {})

    def add(self, record: dict[str, Any]) -> None:
        with open(self.path, "a", encoding="utf-8") as handle:
            handle.write(json.dumps(record) + "\n")


def read_log(path: Path) -> list[dict[str, Any]]:
    """The records of a log; a last line cut short by a kill is left out."""
    if not path.exists():
        return []
    records = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            records.append(json.loads(line))
        except json.JSONDecodeError:
            break
    return records


STATE_FILE = "state.safetensors"


def save_state(folder: Path, tensors: dict[str, torch.Tensor], values: dict[str, Any]) -> None:
    """Store tensors and JSON-able `values` as `folder/state.safetensors` (old or new, never half)."""
    with atomic_write(folder / STATE_FILE) as temporary:
        save_file(
            {k: v.contiguous() for k, v in tensors.items()},
            temporary,
            metadata={"values": json.dumps(values)},
        )


def load_state(
    folder: Path, settings: dict[str, Any]
) -> tuple[dict[str, torch.Tensor], dict[str, Any]] | None:
    """As `read_state`. Raises RunFolderError, too, where its settings are not `settings`."""
    if (stored := read_state(folder)) is not None:
        _check_same(folder, stored[1]["settings"], settings)
    return stored


def read_state(folder: Path) -> tuple[dict[str, torch.Tensor], dict[str, Any]] | None:
    """What `save_state` saved, None without a file. Raises RunFolderError for another file."""
    path = folder / STATE_FILE
    if not path.exists():
        return None
    try:
        with safe_open(path, "pt") as handle:
            metadata = handle.metadata() or {}
            tensors = {k: handle.get_tensor(k) for k in handle.keys()}  # noqa: SIM118
        values = json.loads(metadata["values"])
    except Exception as error:
        raise RunFolderError(
            f"{path} is not a training state ({error}); start anew with --overwrite"
        ) from error
    return tensors, values


def _check_same(folder: Path, begun: dict[str, Any], now: dict[str, Any]) -> None:
    """Raise RunFolderError naming the first three settings that differ."""
    if names := differing(begun, now)[:3]:
        values = (f"{n} ({begun.get(n)!r} then, {now.get(n)!r} now)" for n in names)
        raise begun_otherwise(folder, values)


FACTS = "training.json"
"""In a finished folder: sources, settings and counts of its training."""
_REPLACES = "replaces-a-finished-folder"


def workspace_of(out: Path) -> Path:
    """`OUT.training`. Raises ArgumentError for an `out` without a name."""
    if not out.name:
        raise ArgumentError(f"--out {out}: give the name of a folder to make")
    return out.with_name(f"{out.name}.training")


def finished_facts(out: Path, settings: dict[str, Any]) -> dict[str, Any] | None:
    """The `training.json` of a finished folder; RunFolderError where its settings are not `settings`.

    None where `out` is no such folder, or a run that replaces it was begun.
    """
    if not (out / FACTS).exists() or (workspace_of(out) / _REPLACES).exists():
        return None
    facts = read_result(dict[str, Any], out / FACTS)
    _check_same(out, facts.get("asked", {}), json.loads(json.dumps(settings)))
    return facts


def open_workspace(out: Path, *, resume: bool, overwrite: bool) -> Path:
    """Make `OUT.training`, which holds a run's state and log.

    A run that was begun under `overwrite` continues under `resume`. Raises RunFolderError where `out` is not
    empty and not to be overwritten, and for an unfinished run without either flag.
    """
    work = workspace_of(out)
    if resume and (work / _REPLACES).exists():
        return work
    check_place(out, overwrite)
    if (work / STATE_FILE).exists():
        goes_on(work, "run", complete=False, resume=resume, overwrite=overwrite)
    work.mkdir(parents=True, exist_ok=True)
    if overwrite:
        filled = not is_vacant(out)
        if filled:  # first: a run that is killed from here on still replaces `out`
            (work / _REPLACES).touch()
        for path in work.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif not (filled and path.name == _REPLACES):
                path.unlink()
    return work


def close_workspace(out: Path) -> None:
    """Mark the run as finished: `out` now holds its result."""
    (workspace_of(out) / _REPLACES).unlink(missing_ok=True)


def training_texts(work: Path, facts: dict[str, Any]) -> dict[str, str]:
    """The texts of a finished folder: `training.json` and the log."""
    return {
        FACTS: json.dumps(facts, ensure_ascii=False, indent=1) + "\n",
        "training_log.jsonl": (work / "log.jsonl").read_text(encoding="utf-8"),
    }
