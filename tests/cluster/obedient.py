"""A worker that does as an item says; it loads no model."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from qt_bert.cluster.ray import Worker


class Obedient:
    """Does what an item says: a word and what it is about."""

    def __init__(self, folder: str, broken: str = "") -> None:
        self.folder = Path(folder)
        if broken == "raises":
            raise ValueError("cannot be opened")
        if broken == "dies":
            os._exit(7)

    def answer(self, item: str) -> str:
        word, _, rest = item.partition(" ")
        if word == "raise":
            raise ValueError(rest)
        if word == "die":
            mark = self.folder / rest
            if not mark.exists():
                mark.touch()
                os.kill(os.getpid(), signal.SIGKILL)
        if word == "sleep":
            time.sleep(float(rest))
        return f"{item} done in {os.environ.get('OMP_NUM_THREADS')} thread"


def obedient(**arguments: Any) -> Worker:
    return Obedient(**arguments)


def fault_text(item: str, error: BaseException) -> str:
    return f"{item} failed: {error}"
