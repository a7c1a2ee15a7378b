"""A training log one can plot: one JSON object a line, cut back to the step a run resumes from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from qt_bert.files import atomic_write


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
