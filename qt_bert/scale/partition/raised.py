"""What an error says, where any may come: a reason in a few words, and whether memory was short."""

from __future__ import annotations

import re

REASON_CHARACTERS = 120

_NO_MEMORY = re.compile(r"can't allocate memory|not enough memory|out of memory|bad_alloc", re.I)


def reason_of(error: BaseException) -> str:
    """`raises TYPE: first line`, at most 120 characters, whole ones, on one line."""
    lines = str(error).strip().splitlines()
    text = f"raises {type(error).__name__}" + (f": {lines[0]}" if lines else "")
    return plain(text)[:REASON_CHARACTERS]


def is_fault(error: BaseException) -> bool:
    """Whether an error is a fault of what was done, and no wish to stop.

    A panic of the tokenizer, which is Rust, is no Exception in Python.
    """
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"


def lacks_memory(error: BaseException) -> bool:
    """Whether an allocation failed, in Python or below it: torch raises plain RuntimeErrors."""
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and _NO_MEMORY.search(str(error)) is not None
    )


def plain(text: str) -> str:
    """`text` on one line, in characters that every file can hold."""
    return "".join(one if one.isprintable() else " " for one in text)
