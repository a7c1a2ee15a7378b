"""The machine's processor and fastest matrix product, and a process's peak memory."""

from __future__ import annotations

import platform
import re
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional as F

SIZES = (512, 768, 1024, 2048, 3072)
GPU_SIZES = (4096, 8192, 16384)


def processor() -> str:
    """The processor's name and the threads torch uses."""
    cpuinfo = Path("/proc/cpuinfo")
    match = re.search(r"model name\s*:\s*(.+)", cpuinfo.read_text()) if cpuinfo.exists() else None
    name = match[1] if match else platform.machine()
    threads = torch.get_num_threads()
    return f"{name}, {threads} thread{'s' if threads > 1 else ''}"


@torch.inference_mode()
def matrix_peak(dtype: torch.dtype, seconds: float = 0.5, device: str = "cpu") -> float:
    """FLOP a second of the fastest product x·Wᵀ of square matrices; `seconds` for each size."""
    best = 0.0
    for size in SIZES if device == "cpu" else GPU_SIZES:
        values, weight = (torch.randn(size, size, dtype=dtype, device=device) for _ in range(2))
        F.linear(values, weight)
        _wait(device)
        end = time.perf_counter() + seconds
        while (start := time.perf_counter()) < end:
            F.linear(values, weight)
            _wait(device)
            best = max(best, 2 * size**3 / (time.perf_counter() - start))
    return best


def _wait(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize(device)


def peak_memory(work: Callable[..., Any], *arguments: Any) -> float:
    """Peak resident MB of a new process that calls `work(*arguments)`."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_peak_after, work, arguments).result()


def _peak_after(work: Callable[..., Any], arguments: tuple[Any, ...]) -> float:
    work(*arguments)
    # Not getrusage: its ru_maxrss starts at the parent's.
    match = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    if match is None:
        raise OSError("/proc/self/status lacks the peak memory (VmHWM)")
    return int(match[1]) / 1024
