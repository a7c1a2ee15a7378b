"""What oneDNN keeps of products in ever new shapes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from qt_bert.encoder import has_bfloat16, kernel_caches, open_checkpoint
from qt_bert.encoder.kernel_caches import KEPT, STREAM

GROWTH = """
import psutil, torch
from qt_bert.encoder import open_checkpoint
from qt_bert.encoder.kernel_caches import bound_kernel_caches
bound_kernel_caches({kept})
open_checkpoint({folder!r}, dtype="bfloat16")
weight = torch.zeros(256, 64, dtype=torch.bfloat16)
def product(rows):
    torch.nn.functional.linear(torch.zeros(rows, 64, dtype=torch.bfloat16), weight)
product(8)
before = psutil.Process().memory_info().rss
for rows in range(9, 600):
    product(rows)
print((psutil.Process().memory_info().rss - before) / 2**20)
"""


@pytest.mark.skipif(not has_bfloat16(), reason="this processor has no bfloat16 products")
def test_a_process_does_not_grow_by_the_shapes_it_meets(checkpoint_of) -> None:
    folder = str(checkpoint_of())
    left = {name: value for name, value in os.environ.items() if "CAPACITY" not in name}
    scripts = [GROWTH.format(folder=folder, kept=kept) for kept in (STREAM, "", 1024)]
    stream, ours, theirs = (
        float(subprocess.check_output([sys.executable, "-c", script], env=left))
        for script in scripts
    )
    assert stream < ours / 4 < theirs / 4, (stream, ours, theirs)
    assert ours < theirs * 0.7, (ours, theirs)


def test_what_the_environment_says_stays(checkpoint_of, monkeypatch) -> None:
    monkeypatch.setenv("LRU_CACHE_CAPACITY", "7")
    monkeypatch.delenv("ONEDNN_PRIMITIVE_CACHE_CAPACITY", raising=False)
    open_checkpoint(checkpoint_of())
    assert os.environ["LRU_CACHE_CAPACITY"] == "7"
    assert os.environ["ONEDNN_PRIMITIVE_CACHE_CAPACITY"] == str(KEPT)


def test_children_keep_less_where_the_environment_had_not_said_more(monkeypatch) -> None:
    first, second = kernel_caches._SETTINGS
    monkeypatch.setattr(kernel_caches, "_set_here", set())
    monkeypatch.setenv(first, "7")
    monkeypatch.delenv(second, raising=False)
    kernel_caches.bound_kernel_caches()
    assert os.environ[second] == str(KEPT)
    kernel_caches.bound_in_children(STREAM)
    assert (os.environ[first], os.environ[second]) == ("7", str(STREAM))
