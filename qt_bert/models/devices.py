"""Where a model runs and in which number type; how many tokens at once, and what where memory is short."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from qt_bert.errors import ArgumentError
from qt_bert.progress import note_once as note_once

if TYPE_CHECKING:
    from qt_bert.models.batches import Batch

# The device that somebody asks for, and the number types it has.


DTYPES = {
    "float32": torch.float32,
    "tf32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}
"""What `--dtype` offers. tf32 is float32 whose products a GPU makes with 10 bits of mantissa."""

_ON_CPU = ("float32", "bfloat16")


def open_device(asked: str) -> torch.device:
    """The device of `auto`, `cpu`, `cuda`, `cuda:1` or `mps`; `auto` is a CUDA device where there is one.

    What `auto` has taken, if not the CPU, is said once on standard error. Raises ArgumentError for
    a device that is not there.
    """
    kind, _, number = asked.partition(":")
    if kind == "auto":
        device = torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")
        if device.type != "cpu":
            note_once(f"running on {device_name(device)}; --device cpu leaves it alone")
        return device
    if kind == "mps" and not torch.backends.mps.is_available():
        raise ArgumentError(f"--device {asked}: torch finds no Apple GPU here; take --device cpu")
    if kind == "cuda":
        there = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if not there:
            raise ArgumentError(
                f"--device {asked}: torch {torch.__version__} finds no CUDA device here; take "
                "--device cpu, or install a torch built for this driver (https://pytorch.org)"
            )
        if not (number or "0").isdecimal() or int(number or 0) >= there:
            known = ", ".join(f"cuda:{n}" for n in range(there))
            raise ArgumentError(f"--device {asked}: this machine has {known}")
        return torch.device("cuda", int(number or 0))
    if asked not in ("cpu", "mps"):
        raise ArgumentError(f"--device {asked!r}: choose from auto, cpu, cuda, cuda:1, mps")
    return torch.device(asked)


def check_dtype(dtype: str, device: torch.device) -> torch.dtype:
    """The number type of a `--dtype` on `device`. Raises ArgumentError for one that it does not have.

    tf32 is a setting of the process: from the first model that is opened so, all float32 products
    on GPUs are made so.
    """
    if dtype not in DTYPES:
        raise ArgumentError(f"--dtype {dtype!r}: choose from {', '.join(DTYPES)}")
    if device.type == "cpu" and dtype not in _ON_CPU:
        raise ArgumentError(f"--dtype {dtype} needs a GPU; on a CPU take {' or '.join(_ON_CPU)}")
    if dtype == "tf32":
        if device.type != "cuda":
            raise ArgumentError(f"--dtype tf32 needs a CUDA device, not {device}")
        torch.set_float32_matmul_precision("high")
    return DTYPES[dtype]


@contextmanager
def whole_products() -> Iterator[None]:
    """float32 products are whole ones while the block runs, whatever `tf32` has set."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def device_name(device: torch.device) -> str:
    """What reports and keys call it: `cpu`, `mps`, or the name of the GPU."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


@lru_cache(maxsize=4096)
def index(places: tuple[int, ...], device: torch.device) -> torch.Tensor:
    """`places` as an index on `device`: indexing with a list would copy it, and wait, each time."""
    with torch.inference_mode(False):
        return torch.tensor(places, dtype=torch.long).to(device)


# Tokens computed at once. A GPU needs many to be busy, and its memory is bounded: where it runs out,
# the work of the moment is done again in smaller parts, and what is to come is bounded by them.


GPU_BATCH_TOKENS = 8192
"""Tokens of a batch of pairs on a GPU."""

_MOST = 65536
"""Tokens beyond which a GPU gains nothing."""

_SHARE = 0.5
"""Of the free memory, what a stack of states may take."""


def stack_tokens(model: Any, most: int = _MOST) -> int:
    """Tokens of a stack of states that the free memory of the model's device holds, from 1024 to `most`.

    Each layer on the way up keeps its input, projections and head outputs; the one at work has its
    feed-forward and, at the worst, its attention maps besides.
    """
    config, device = model.config, model.device
    if device.type != "cuda":
        return GPU_BATCH_TOKENS
    free, _ = torch.cuda.mem_get_info(device)
    free += torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    kept = 6 * config.hidden_size * config.num_hidden_layers
    at_work = 3 * config.intermediate_size + 3 * config.num_attention_heads * 128
    tokens = int(_SHARE * free / ((kept + at_work) * model.dtype.itemsize))
    return max(1024, min(most, tokens))


@dataclass(eq=False)
class Memory:
    """`tokens` computed at once; halved where a device has no memory for them.

    As long as nothing was halved, a batch is computed whole, however long it is.
    """

    tokens: int
    halved: bool = False

    def halve(self, pairs: int, words: str) -> None:
        """Go on with half the tokens; to be called when the error, which said `words`, is let go, for it
        holds what was computed. Raises ArgumentError where `pairs` were one, of few tokens."""
        if pairs == 1 and self.tokens < 64:
            raise ArgumentError(
                f"the GPU has no memory for a single pair ({words.split('.')[0]}); free some, take "
                "--dtype bfloat16, a smaller --max-length, or --device cpu"
            )
        self.tokens, self.halved = max(1, self.tokens // 2), True
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        note_once("the GPU's memory is short: going on in smaller parts, nothing is lost")


Found = TypeVar("Found")


def in_parts(
    batch: Batch, memory: Memory, run: Callable[[Batch], Found], share: int = 1
) -> Sequence[Found]:
    """`run` of a batch, or of parts of its pairs in their order, within memory.

    A part that fails for want of memory is run again, smaller; `share` is how many times a pair's
    tokens are held at once. Raises ArgumentError where one pair alone is too much.
    """
    found: list[Found] = []
    start = 0
    while start < len(batch):
        most = max(1, memory.tokens // (share * batch.length)) if memory.halved else len(batch)
        part = batch.some(slice(start, start + most))
        words = None
        try:
            found.append(run(part))
            start += len(part)
        except torch.OutOfMemoryError as error:
            words = str(error)
        if words is not None:
            memory.halve(len(part), words)
    return found


# How many compiled kernels oneDNN keeps.
#
# oneDNN compiles a kernel for each shape of a product and keeps a thousand of them, and torch as
# many again behind it, a megabyte each. A text met again is answered by its own kernels, some eight
# a layer, and by as many more for each layer that has heads or units of its own. Batches of a long
# stream come in ever new shapes, and no kernel is worth its memory there: such a process grows to
# gigabytes.


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


def has_bfloat16() -> bool:
    """Whether the processor multiplies bfloat16 itself (AVX-512 BF16 or AMX); True where unknown."""
    cpuinfo = Path("/proc/cpuinfo")
    if not cpuinfo.exists():
        return True
    flags = set(cpuinfo.read_text(encoding="utf-8", errors="replace").split())
    return not flags.isdisjoint({"avx512_bf16", "amx_bf16", "bf16"})
