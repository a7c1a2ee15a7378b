"""How many compiled kernels oneDNN keeps.

oneDNN compiles a kernel for each shape of a product and keeps a thousand of them, and torch as many
again behind it, a megabyte each. A text met again is answered by its own kernels, some eight a layer,
and by as many more for each layer that has heads or units of its own. Batches of a long stream come
in ever new shapes, and no kernel is worth its memory there: such a process grows to gigabytes.
"""

from __future__ import annotations

import os

KEPT = 256
"""What a text needs in a model of 24 layers of which no two are alike."""

STREAM = 16
"""What one layer needs: the others find its kernels, if they are like it."""

_SETTINGS = ("LRU_CACHE_CAPACITY", "ONEDNN_PRIMITIVE_CACHE_CAPACITY")
_OURS = "QT_BERT_KERNEL_CACHES"
"""What a parent process has bounded them to, which its user did not ask for."""

_bounded: set[str] = set()


def bound_kernel_caches(kept: int = KEPT) -> None:
    """Have both keep at most `kept` kernels, unless the environment says how many.

    The first call counts. It acts on a process that has not computed yet: each reads its setting once,
    at its first product.
    """
    ours = os.environ.get(_OURS)
    for name in _SETTINGS:
        if name not in _bounded and os.environ.get(name, ours) == ours:
            os.environ[name] = os.environ[_OURS] = str(kept)
        _bounded.add(name)
