"""The manifest of a folder of title states: whose they are, and the files they lie in."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

from qt_bert.encoder import Checkpoint
from qt_bert.encoder.offline import Offline
from qt_bert.errors import RunFolderError
from qt_bert.files import sha256_file, write_json
from qt_bert.pairs.words import is_of_words
from qt_bert.results.codec import encode, read_result
from qt_bert.scoring.title_states.computing import block_of, hidden_of
from qt_bert.scoring.title_states.quantising import Format

MANIFEST = "title_states.json"

Array = Literal["keys", "lengths", "states", "scales"]
ARRAYS: tuple[Array, ...] = get_args(Array)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatesOf:
    """What title states depend on; `name` is for the reader alone."""

    name: str
    weights: str
    config: str
    tokenizer: str
    offline: Offline
    hidden: int

    def differing(self, other: StatesOf) -> list[str]:
        """In words, what differs from `other`."""
        mine, theirs = (
            {
                "model": (one.weights, one.config, one.hidden),
                "tokenizer": one.tokenizer,
                "block": one.offline,
            }
            for one in (self, other)
        )
        return [name for name in mine if mine[name] != theirs[name]]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRecord:
    """A file's size and hash."""

    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PartFiles:
    """The files of one part, by the array that each holds."""

    keys: FileRecord
    lengths: FileRecord
    states: FileRecord
    scales: FileRecord | None = None

    def there(self) -> dict[Array, FileRecord]:
        """Those that there are."""
        files = {name: getattr(self, name) for name in ARRAYS}
        return {name: file for name, file in files.items() if file is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class PartRecord:
    """One part, of `titles` titles with `tokens` tokens."""

    titles: int
    tokens: int
    files: PartFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A folder of title states, complete or not.

    `source` is the hash of the file of titles and how it was read. `rows` of its titles lie in
    `parts` by now, equal ones once; `truncated` of the latter were cut. `rejected` counts rows
    without a title, once it is complete.
    """

    schema: Literal[1] = 1
    of: StatesOf
    dtype: Format
    source: dict[str, str]
    complete: bool = False
    rows: int = 0
    rejected: int = 0
    truncated: int = 0
    titles: int = 0
    tokens: int = 0
    bytes: int = 0
    parts: tuple[PartRecord, ...] = ()

    def with_part(self, part: PartRecord, rows: int, truncated: int) -> Manifest:
        """With one more part, behind which `rows` rows lie."""
        return replace(
            self,
            rows=rows,
            truncated=truncated,
            titles=self.titles + part.titles,
            tokens=self.tokens + part.tokens,
            bytes=self.bytes + sum(file.bytes for file in part.files.there().values()),
            parts=(*self.parts, part),
        )

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        """Raises RunFolderError where there is none, or one that cannot be read."""
        if not (folder / MANIFEST).is_file():
            raise RunFolderError(
                f"{folder}: no title states ({MANIFEST}); make them with `qt-bert title-states`"
            )
        return read_result(cls, folder / MANIFEST)

    def write(self, folder: Path) -> None:
        """Store it, atomically."""
        write_json(folder / MANIFEST, encode(self))


def part_file(folder: Path, number: int, array: Array) -> Path:
    """Where an array of a part lies."""
    return folder / f"part-{number:05}.{array}.npy"


def states_of_checkpoint(checkpoint: Checkpoint) -> StatesOf:
    """What the states of a checkpoint depend on. Raises CheckpointError for one that is not offline."""
    return StatesOf(
        name=checkpoint.name,
        weights=checkpoint.sha256,
        config=sha256_file(checkpoint.folder / "config.json"),
        tokenizer=tokenizer_sha256(checkpoint.tokenizer),
        offline=block_of(checkpoint),
        hidden=hidden_of(checkpoint),
    )


def tokenizer_sha256(tokenizer: Any) -> str:
    """One hash for what a fast tokenizer makes of a text, however it pads and cuts at the moment."""
    stored = json.loads(tokenizer.backend_tokenizer.to_str())
    stored |= {"truncation": None, "padding": None, "words": is_of_words(tokenizer)}
    return hashlib.sha256(json.dumps(stored, sort_keys=True).encode()).hexdigest()
