"""What a process wrote to standard error before it died, as far as it helps."""

from __future__ import annotations

_READ = 2000


def last_words(written: bytes) -> str:
    """`: ` and the last line that holds anything; nothing where there is none."""
    lines = written[-_READ:].decode("utf-8", "replace").split("\n")
    said = [line.strip() for line in lines if line.strip()]
    return f": {said[-1]}" if said else ""


def ended_by(status: int) -> str:
    """How a process ended, by the status that `subprocess` gives."""
    return f"signal {-status}" if status < 0 else f"exit status {status}"
