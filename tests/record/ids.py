"""Old ids of the record and what they are called now; what was moved on purpose, or rests on ties."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


def table(name: str) -> dict[str, str]:
    """The one table of `ids.toml`, `moved.toml` or `ties.toml`."""
    read: dict[str, Any] = tomllib.loads((HERE / f"{name}.toml").read_text(encoding="utf-8"))
    return dict(read[name])


def renamed(name: str, ids: dict[str, str]) -> str:
    """The present id of an old one; a `*` stands for any part, a whole path for all under it."""
    for old, now in ids.items():
        pattern = "(.*)".join(re.escape(part) for part in old.split("*"))
        if found := re.fullmatch(f"{pattern}((?:/.*)?)", name):
            *kept, rest = found.groups()
            first, *others = now.split("*")
            return first + "".join(a + b for a, b in zip(kept, others, strict=False)) + rest
    return name
