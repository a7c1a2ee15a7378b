"""What was found out of a partition that workers died of, kept for the worker after the next death."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, field

from qt_bert.scale.ledger.layout import notes_file
from qt_bert.scale.places.place import Place


@dataclass
class Notes:
    """The rows that kill, with the reason, and the one of which a process died once (0: none).

    A row that hangs costs the time of two stalls, and a worker that says nothing for long is given
    up: without notes the next one would begin again, and a partition with many would never end.
    """

    out: Place
    partition: str
    killers: dict[int, str] = field(default_factory=dict)
    suspect: int = 0

    def __post_init__(self) -> None:
        # There are none, or they were cut short.
        with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            said = json.loads(self.out.read_text(notes_file(self.partition)))
            suspect = int(said["suspect"])
            self.killers = {int(line): str(reason) for line, reason in said["killers"].items()}
            self.suspect = suspect

    def died_at(self, line: int, reason: str) -> None:
        """A process died at a row (0: between two), which makes it suspect, or a killer."""
        if line and line == self.suspect:
            self.killers[line] = reason
        self.suspect = line
        said = {"killers": self.killers, "suspect": self.suspect}
        with suppress(OSError):
            self.out.write_text(notes_file(self.partition), json.dumps(said))

    def forget(self) -> None:
        """It is not the rows: the next attempt shall begin without blame."""
        with suppress(OSError):
            self.out.delete(notes_file(self.partition))
