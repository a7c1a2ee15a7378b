"""How many rows a file has, for the time left: a count of line ends, or Parquet's own number."""

from __future__ import annotations

from pathlib import Path

from qt_bert.errors import PairFileError
from qt_bert.pairs.formats.source import open_bytes


def count_rows(path: Path) -> int | None:
    """Lines of a text file, a header included; None where the file cannot be counted."""
    try:
        if path.suffix == ".parquet":
            import pyarrow.parquet as pq

            return int(pq.read_metadata(path).num_rows)
        with open_bytes(path) as handle:
            return sum(block.count(b"\n") for block in iter(lambda: handle.read(1 << 20), b""))
    except (OSError, PairFileError):
        return None
