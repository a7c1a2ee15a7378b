"""A run folder at an address, as the ledger uses it."""

from __future__ import annotations

import errno
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from qt_bert.files import is_temporary
from qt_bert.scale.ledger.storage import LocalStorage, Storage
from qt_bert.scale.places.local import LocalPlace
from qt_bert.scale.places.naming import place_of
from qt_bert.scale.places.place import Place


def storage_of(out: str) -> Storage:
    """The folder that `out` names: a path or an address. Raises ArgumentError as `place_of`."""
    place = place_of(out)
    return LocalStorage(Path(out)) if isinstance(place, LocalPlace) else PlaceStorage(place)


@dataclass(frozen=True)
class PlaceStorage:
    """A folder at an address, where files are put whole and never grow."""

    place: Place
    appends = False

    def __str__(self) -> str:
        return str(self.place)

    def is_folder(self) -> bool:
        return self.place.is_folder()

    def is_vacant(self) -> bool:
        if not self.place.exists():
            return True
        return self.place.is_folder() and all(map(is_temporary, self._names("")))

    def exists(self, name: str) -> bool:
        return self.place.exists(name)

    def sizes(self, folder: str) -> dict[str, int]:
        return {name: size for name, size in self._names(folder).items() if "/" not in name}

    def open(self, name: str) -> BinaryIO:
        if not self.place.exists(name):
            raise FileNotFoundError(errno.ENOENT, "no such file", f"{self}/{name}")
        return cast(BinaryIO, self.place.open_input(name))

    def write(self, name: str, chunks: Iterable[bytes]) -> None:
        self.place.write(name, b"".join(chunks))

    def append(self, name: str, data: bytes) -> None:
        raise OSError(errno.EROFS, "files cannot grow at an address", f"{self}/{name}")

    def remove(self, name: str) -> None:
        self.place.delete(name)

    def remove_folder(self, name: str) -> None:
        for below in self._names(name):
            self.place.delete(f"{name}/{below}")

    def _names(self, folder: str) -> dict[str, int]:
        """All files under `folder` with their bytes; none where it is not there."""
        where = self.place.join(folder) if folder else self.place
        if not where.is_folder():
            return {}
        return {name: stored.size for name, stored in where.list().items()}
