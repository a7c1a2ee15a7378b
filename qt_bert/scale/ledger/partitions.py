"""The partitions of a run, one a line, written once; `run.json` holds their hash."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from sys import intern

from qt_bert.errors import ArgumentError, RunFolderError
from qt_bert.pairs.parts import Part
from qt_bert.scale.ledger.layout import PARTITIONS
from qt_bert.scale.ledger.storage import Storage

_SHARED = ("name", "file", "sha256", "encoding", "header")
_ADVICE = "fetch the file anew, or start anew with --overwrite"


@dataclass(frozen=True)
class Partitions:
    """The parts of a run in order, and the number of each by its name."""

    parts: Sequence[Part]
    numbers: Mapping[str, int]

    @classmethod
    def of(cls, parts: Sequence[Part]) -> Partitions:
        """Raises ArgumentError where two parts are the same."""
        return cls._named(parts, [part.name() for part in parts])

    @classmethod
    def _named(cls, parts: Sequence[Part], names: Sequence[str]) -> Partitions:
        numbers = {name: number for number, name in enumerate(names)}
        if len(numbers) != len(parts):
            raise ArgumentError("two partitions are the same rows of the same file")
        return cls(parts, numbers)

    def write(self, storage: Storage) -> str:
        """Store them, atomically; the SHA-256 of the file. Raises OSError."""
        digest = hashlib.sha256()

        def lines() -> Iterator[bytes]:
            for name, part in zip(self.numbers, self.parts, strict=True):
                value = {"name": name} | part.describe()
                line = (json.dumps(value, ensure_ascii=False) + "\n").encode()
                digest.update(line)
                yield line

        storage.write(PARTITIONS, lines())
        return digest.hexdigest()

    @classmethod
    def read(cls, storage: Storage, sha256: str) -> Partitions:
        """What was stored. Raises RunFolderError where it is missing or another one."""
        where = f"{storage}/{PARTITIONS}"
        try:
            with storage.open(PARTITIONS) as handle:
                if hashlib.file_digest(handle, "sha256").hexdigest() != sha256:  # type: ignore[arg-type]
                    raise RunFolderError(f"{where}: not the partitions of this run; {_ADVICE}")
            with storage.open(PARTITIONS) as handle:
                found = list(_named_parts(handle))
        except FileNotFoundError as error:
            raise RunFolderError(f"{where}: missing; {_ADVICE}") from error
        except (ValueError, TypeError, KeyError) as error:
            raise RunFolderError(f"{where}: not of this program ({error}); {_ADVICE}") from error
        return cls._named([part for _, part in found], [name for name, _ in found])


def _named_parts(lines: Iterable[bytes]) -> Iterator[tuple[str, Part]]:
    """Texts that parts, or a part and its line, have in common are kept once."""
    for line in lines:
        value = json.loads(line)
        for key in _SHARED:
            if isinstance(text := value[key], str):
                value[key] = intern(text)
        yield value.pop("name"), Part.from_json(value)
