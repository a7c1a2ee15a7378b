"""From what a user wrote to the place that it names."""

from __future__ import annotations

import re

from qt_bert.scale.places.local import LocalPlace
from qt_bert.scale.places.place import Place
from qt_bert.scale.places.remote import RemotePlace

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


def place_of(text: str) -> Place:
    """The place that `text` names: an address (`scheme://...`), or else a local path.

    Raises ArgumentError, naming the address, where its file system is unknown or out of reach.
    """
    return RemotePlace.at(text) if _ADDRESS.match(text) else LocalPlace(text)
