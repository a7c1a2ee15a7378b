"""Reading shards of plain text."""

from __future__ import annotations

import gzip
import lzma
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from qt_bert.errors import PairFileError

_OPENERS: dict[str, Callable[..., Any]] = {".xz": lzma.open, ".gz": gzip.open}


def text_lines(path: Path) -> Iterator[str]:
    """The non-empty lines of a .txt, .txt.gz or .txt.xz shard (one fragment a line, UTF-8).

    Raises PairFileError where the file is missing, truncated or not UTF-8.
    """
    try:
        with _OPENERS.get(path.suffix, open)(path, "rb") as handle:
            for line in handle:
                text = line.decode("utf-8").strip()
                if text:
                    yield text
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        raise PairFileError(f"{path}: cannot be read as a text shard ({error})") from error
    except UnicodeDecodeError as error:
        raise PairFileError(f"{path}: not UTF-8 ({error}); convert it first") from error
