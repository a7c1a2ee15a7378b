"""torch.compile where a C++ compiler is found, the plain function and a word where not."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from typing import Any


def compiled(function: Callable[..., Any], wanted: bool = True) -> Callable[..., Any]:
    """`function` compiled for the shapes it is called with, or itself.

    What was compiled before is let go: a process that trains many models would keep it all.
    """
    if not wanted:
        return function
    if not any(shutil.which(name) for name in ("g++", "clang++", "c++")):
        print(
            "no C++ compiler found: training runs uncompiled, at about two thirds of the speed",
            file=sys.stderr,
        )
        return function
    import torch

    torch._dynamo.reset()
    torch._dynamo.config.cache_size_limit = 32
    return torch.compile(function, dynamic=False)
