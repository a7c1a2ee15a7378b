"""The folder in which an unfinished sweep gathers logits that other processes computed."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

SHARDS = "shards"

_OURS = re.compile(r"\d{6,}\.(npy|json)|\.\d{6,}\.(npy|json)\.\d+\.tmp")


def shard_logits(sweep: Path, number: int) -> Path:
    """The logits of a shard."""
    return sweep / SHARDS / f"{number:06}.npy"


def shard_line(sweep: Path, number: int) -> Path:
    """What is said of them, written after them."""
    return sweep / SHARDS / f"{number:06}.json"


def clear_shards(sweep: Path) -> None:
    """Remove the folder, if there is one; a file in it that is none of a shard's stays."""
    folder = sweep / SHARDS
    if not folder.is_dir():
        return
    for file in folder.iterdir():
        if _OURS.fullmatch(file.name):
            file.unlink(missing_ok=True)
    with suppress(OSError):
        folder.rmdir()
