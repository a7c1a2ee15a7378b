"""How many compiled kernels oneDNN keeps.

oneDNN compiles a kernel for each shape of a product and keeps a thousand of them, and torch as many
again behind it. Batches of rows of one length come in ever new shapes, so these are rarely met
again: a process that scores in bfloat16 grows to gigabytes, and is slower for it.
"""

from __future__ import annotations

import os

KEPT = "16"
"""More than one layer has shapes, so that all layers but the first find theirs."""

_SETTINGS = ("LRU_CACHE_CAPACITY", "ONEDNN_PRIMITIVE_CACHE_CAPACITY")


def bound_kernel_caches() -> None:
    """Have both keep few kernels, unless the environment says how many.

    It acts on a process that has not computed yet: each reads its setting once, at its first product.
    """
    for name in _SETTINGS:
        os.environ.setdefault(name, KEPT)
