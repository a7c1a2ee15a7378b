"""Faults of a partition in words: what went wrong, and whether another attempt may go better."""

from __future__ import annotations

import errno
import os
import platform

from qt_bert.errors import PairFileError, QtBertError
from qt_bert.scale.ledger.lines import Fault, FaultKind
from qt_bert.scale.partition.halving import WorkerIll
from qt_bert.scale.partition.raised import lacks_memory, plain, reason_of

_LASTING = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError)

_ADVICE = {
    errno.ENOSPC: "make room there",
    errno.EDQUOT: "make room there, or ask for a larger quota",
    errno.EACCES: "let this user write there",
    errno.EPERM: "let this user write there",
    errno.EROFS: "give an --out that can be written",
}


def fault(partition: str, kind: FaultKind, message: str, *, again: bool, attempt: int = 1) -> Fault:
    """A fault of this node, on one line."""
    node = platform.node()
    return Fault(
        partition=partition,
        kind=kind,
        message=plain(message),
        again=again,
        node=node,
        attempt=attempt,
    )


def fault_of(error: BaseException, partition: str, attempt: int = 1) -> Fault:
    """The fault that an error means which was raised while a partition was read and scored."""
    kind, again = _meaning(error)
    known = isinstance(error, QtBertError)
    message = str(error) if known else f"{partition}: scoring {reason_of(error)}"
    return fault(partition, kind, message, again=again, attempt=attempt)


def disk_fault(error: OSError, where: str, partition: str, attempt: int = 1) -> Fault:
    """The fault of a run folder `where` that cannot be written."""
    words = os.strerror(error.errno) if error.errno else str(error)
    advice = _ADVICE.get(error.errno or 0, "see that it can be written")
    message = f"{where}: cannot be written ({words}); {advice}, and go on with --resume"
    again = error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS)
    return fault(partition, "disk", message, again=again, attempt=attempt)


def _meaning(error: BaseException) -> tuple[FaultKind, bool]:
    if isinstance(error, PairFileError):
        cause = error.__cause__
        return "input", isinstance(cause, OSError) and not isinstance(cause, _LASTING)
    if isinstance(error, WorkerIll):
        return ("memory" if error.memory else "model"), True
    if lacks_memory(error):
        return "memory", True
    if isinstance(error, OSError):  # of the node: a reader's is a PairFileError by now
        return "disk", True
    return ("model" if isinstance(error, QtBertError) else "program"), False
