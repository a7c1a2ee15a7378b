"""The device and number type of a model, batch sizes within its memory, and oneDNN's kernel caches."""

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
from qt_bert.progress import note_once

if TYPE_CHECKING:
    from qt_bert.models.batches import Batch

DTYPES = {
    "float32": torch.float32,
    "tf32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}
"""The choices of `--dtype`. tf32: float32 whose products a GPU computes with 10 bits of mantissa."""

_ON_CPU = ("float32", "bfloat16")


def open_device(name: str) -> torch.device:
    """The device of `auto`, `cpu`, `cuda`, `cuda:1` or `mps`; `auto` is a CUDA device where there is one,
    with a note. Raises ArgumentError for a missing device."""
    kind, _, number = name.partition(":")
    if kind == "auto":
        device = torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")
        if device.type != "cpu":
            note_once(f"running on {device_name(device)}; --device cpu leaves it alone")
        return device
    if kind == "mps" and not torch.backends.mps.is_available():
        raise ArgumentError(f"--device {name}: torch finds no Apple GPU here; take --device cpu")
    if kind == "cuda":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if not count:
            raise ArgumentError(
                f"--device {name}: torch {torch.__version__} finds no CUDA device here; take "
                "--device cpu, or install a torch built for this driver (https://pytorch.org)"
            )
        if not (number or "0").isdecimal() or int(number or 0) >= count:
            known = ", ".join(f"cuda:{n}" for n in range(count))
            raise ArgumentError(f"--device {name}: this machine has {known}")
        return torch.device("cuda", int(number or 0))
    if name not in ("cpu", "mps"):
        raise ArgumentError(f"--device {name!r}: choose from auto, cpu, cuda, cuda:1, mps")
    return torch.device(name)


def check_dtype(dtype: str, device: torch.device) -> torch.dtype:
    """The number type of a `--dtype` on `device`. Raises ArgumentError for one that the device lacks.

    tf32 is a setting of the process: once a model is opened in it, all float32 products on GPUs use it.
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
    """Use full float32 products in the block, even under tf32."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def device_name(device: torch.device) -> str:
    """The name in reports and keys: `cpu`, `mps`, or that of the GPU."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


@lru_cache(maxsize=4096)
def index(places: tuple[int, ...], device: torch.device) -> torch.Tensor:
    """`places` as an index on `device`: indexing with a list would copy it, and wait, each time."""
    with torch.inference_mode(False):
        return torch.tensor(places, dtype=torch.long).to(device)


# Tokens computed at once. A GPU needs many to be busy, but its memory is bounded: where it runs out,
# the current batch is computed again in smaller parts, and later ones keep that size.


GPU_BATCH_TOKENS = 8192
"""Tokens of a batch of pairs on a GPU."""

_MOST = 65536
"""Tokens beyond which a GPU gains nothing."""

_SHARE = 0.5
"""The share of free memory that a stack of states may take."""


def stack_tokens(model: Any) -> int:
    """Tokens of a stack of states that fit the free memory of the model's device, from 1024 to `_MOST`.

    Each layer keeps its input, projections and head outputs; the current one also its feed-forward
    and, at worst, its attention maps.
    """
    config, device = model.config, model.device
    if device.type != "cuda":
        return GPU_BATCH_TOKENS
    free, _ = torch.cuda.mem_get_info(device)
    free += torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    kept = 6 * config.hidden_size * config.num_hidden_layers
    at_work = 3 * config.intermediate_size + 3 * config.num_attention_heads * 128
    tokens = int(_SHARE * free / ((kept + at_work) * model.dtype.itemsize))
    return max(1024, min(_MOST, tokens))


@dataclass(eq=False)
class Memory:
    """`tokens` computed at once; halved when a device is full, unlimited until then."""

    tokens: int
    halved: bool = False

    def halve(self, pairs: int, message: str) -> None:
        """Continue with half the tokens. Call it once the error (with this `message`), which holds memory, is
        released. Raises ArgumentError for a single pair of few tokens."""
        if pairs == 1 and self.tokens < 64:
            raise ArgumentError(
                f"the GPU has no memory for a single pair ({message.split('.')[0]}); free some, take "
                "--dtype bfloat16, a smaller --max-length, or --device cpu"
            )
        self.tokens, self.halved = max(1, self.tokens // 2), True
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        note_once("the GPU's memory is short: going on in smaller parts, nothing is lost")


Result = TypeVar("Result")


def in_parts(
    batch: Batch, memory: Memory, run: Callable[[Batch], Result], share: int = 1
) -> Sequence[Result]:
    """`run` of a batch, or of consecutive parts of it, within memory.

    A part that fails for want of memory is run again, smaller; `share` is how many times a pair's
    tokens are held at once. Raises ArgumentError where one pair alone is too much.
    """
    results: list[Result] = []
    start = 0
    while start < len(batch):
        most = max(1, memory.tokens // (share * batch.length)) if memory.halved else len(batch)
        part = batch.subset(slice(start, start + most))
        message = None
        try:
            results.append(run(part))
            start += len(part)
        except torch.OutOfMemoryError as error:
            message = str(error)
        if message is not None:
            memory.halve(len(part), message)
    return results


# How many compiled kernels oneDNN keeps.
#
# oneDNN compiles a kernel for each shape of a product and caches a thousand of them, and torch as
# many again, a megabyte each. A repeated text reuses its kernels, some eight for each distinct shape
# of a layer. Batches of a long stream have ever new shapes, and caching their kernels only makes the
# process grow to gigabytes.

KEPT = 256
"""Kernels for a text in a model of 24 different layers."""

STREAM = 16
"""Kernels of one layer, which equal layers reuse."""

_SETTINGS = ("LRU_CACHE_CAPACITY", "ONEDNN_PRIMITIVE_CACHE_CAPACITY")
_OURS = "QT_BERT_KERNEL_CACHES"
"""The bound set by a parent process, to distinguish it from one set by the user."""

_bounded: set[str] = set()


def bound_kernel_caches(kept: int = KEPT) -> None:
    """Bound both caches to `kept` kernels, unless the environment sets a bound.

    The first call counts, and only before the process computes: both read their setting at the first
    product.
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
