"""The machine's processor and fastest matrix product, seconds, and a process's peak memory."""

from __future__ import annotations

import platform
import re
import statistics
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
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
def matrix_peak(dtype: torch.dtype, device: str = "cpu") -> float:
    """FLOP a second of the fastest product x·Wᵀ of square matrices; half a second for each size."""
    best = 0.0
    for size in SIZES if device == "cpu" else GPU_SIZES:
        values, weight = (torch.randn(size, size, dtype=dtype, device=device) for _ in range(2))
        product = partial(F.linear, values, weight)
        product()
        end = time.perf_counter() + 0.5
        while time.perf_counter() < end:
            best = max(best, 2 * size**3 / timed(product))
    return best


def timed(work: Callable[[], object]) -> float:
    """Seconds that `work` takes, on a GPU to its end."""
    _wait()
    start = time.perf_counter()
    work()
    _wait()
    return time.perf_counter() - start


def _wait() -> None:
    for device in range(torch.cuda.device_count()):
        torch.cuda.synchronize(device)


def median_seconds(runs: Mapping[Any, Callable[[], object]], rounds: int) -> dict[Any, float]:
    """Median seconds of each run: a warm-up, then rounds in turn."""
    for run in runs.values():
        run()
    times = [{name: timed(run) for name, run in runs.items()} for _ in range(rounds)]
    return {name: statistics.median(one[name] for one in times) for name in runs}


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
