"""From what a user wrote to the place that it names."""

from __future__ import annotations

import os
import re

from qt_bert.errors import ArgumentError
from qt_bert.scale.places.local import LocalPlace
from qt_bert.scale.places.place import Place
from qt_bert.scale.places.remote import RemotePlace

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


def is_text(name: str) -> bool:
    """Whether a name is UTF-8: of others Python keeps the bytes in characters that are none."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def shown(name: str) -> str:
    """A name with its bytes that are no text written out."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def place_of(text: str) -> Place:
    """The place that `text` names: an address (`scheme://...`), or else a local path.

    Raises ArgumentError, naming the address, where its file system is unknown or out of reach, and
    for a name that is not UTF-8, which no list of results could hold.
    """
    if not is_text(text):
        raise ArgumentError(f"{shown(text)}: this name is not UTF-8; rename it")
    return RemotePlace.at(text) if _ADDRESS.match(text) else LocalPlace(text)
