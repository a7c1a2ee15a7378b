"""The error of a part of a file that is no longer what it was."""

from __future__ import annotations

from qt_bert.errors import PairFileError
from qt_bert.pairs.formats.opening import Location


class PartChanged(PairFileError):
    """A file was rewritten or cut short after its parts were fixed."""

    @classmethod
    def of(cls, file: Location, first: int, rows: int) -> PartChanged:
        """For the `rows` lines from number `first` on."""
        return cls(
            f"{file}: changed since it was scanned (lines {first:,} to {first + rows - 1:,}); "
            "put the file back as it was, or start anew with --overwrite"
        )
