"""Results kept for the next click: the latest few, within a bound on their bytes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")

MOST = 256
MOST_BYTES = 24 * 2**20


class Kept:
    """A cache that many threads share: at most `most` results of `most_bytes` bytes together.

    The least recently used go first. A result larger than an eighth of the bytes is not kept.
    """

    def __init__(self, most: int = MOST, most_bytes: int = MOST_BYTES) -> None:
        self.most, self.most_bytes = most, most_bytes
        self.bytes = 0
        self._lock = threading.Lock()
        self._found: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._found)

    def find(self, key: Hashable) -> Any | None:
        """What is kept under `key`, if anything."""
        with self._lock:
            if key not in self._found:
                return None
            self._found.move_to_end(key)
            return self._found[key][0]

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """What is kept under `key`, else what `make` makes: outside of any lock, so maybe twice."""
        kept: T | None = self.find(key)
        if kept is not None:
            return kept
        value = make()
        size = bytes_of(value)
        if size <= self.most_bytes // 8:
            with self._lock:
                self._keep(key, value, size)
        return value

    def _keep(self, key: Hashable, value: Any, size: int) -> None:
        if key in self._found:
            self.bytes -= self._found.pop(key)[1]
        self._found[key] = (value, size)
        self.bytes += size
        while len(self._found) > self.most or self.bytes > self.most_bytes:
            self.bytes -= self._found.popitem(last=False)[1][1]


def bytes_of(value: Any) -> int:
    """Bytes of a result, roughly: its arrays and texts, in whatever plain objects they lie."""
    if isinstance(value, np.ndarray):
        return value.nbytes + 128
    if isinstance(value, str | bytes):
        return 64 + 4 * len(value)
    if isinstance(value, Mapping):
        return 64 + sum(bytes_of(one) for pair in value.items() for one in pair)
    if isinstance(value, list | tuple | set | frozenset):
        return 64 + sum(map(bytes_of, value))
    if is_dataclass(value):
        return 64 + sum(bytes_of(getattr(value, field.name)) for field in fields(value))
    return 64
