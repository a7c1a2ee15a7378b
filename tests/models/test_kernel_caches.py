"""What oneDNN keeps of products in ever new shapes."""

import os
import subprocess
import sys

import pytest

from qt_bert.models import devices
from qt_bert.models.devices import KEPT, STREAM, bound_kernel_caches, has_bfloat16
from qt_bert.models.opening import open_checkpoint

FIRST, SECOND = devices._SETTINGS

GROWTH = """
import psutil, torch
from qt_bert.models.opening import open_checkpoint
from qt_bert.models.devices import bound_kernel_caches
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
def test_a_process_does_not_grow_by_the_shapes_it_meets(checkpoint_of):
    folder = str(checkpoint_of())
    left = {name: value for name, value in os.environ.items() if "CAPACITY" not in name}
    scripts = [GROWTH.format(folder=folder, kept=kept) for kept in ("", 1024)]
    ours, theirs = (
        float(subprocess.check_output([sys.executable, "-c", script], env=left))
        for script in scripts
    )
    assert ours < theirs * 0.7, (ours, theirs)


@pytest.fixture
def fresh(monkeypatch) -> None:
    """As in a process that has bounded nothing, and whose parent has not."""
    monkeypatch.setattr(devices, "_bounded", set())
    for name in (FIRST, SECOND, devices._OURS):
        monkeypatch.setenv(name, "")  # so that it is put back as it was
        monkeypatch.delenv(name)


def bounds() -> tuple[str, str]:
    return os.environ[FIRST], os.environ[SECOND]


@pytest.mark.usefixtures("fresh")
def test_what_the_environment_says_stays(checkpoint_of, monkeypatch):
    monkeypatch.setenv(FIRST, "7")
    open_checkpoint(checkpoint_of())
    assert bounds() == ("7", str(KEPT))


@pytest.mark.usefixtures("fresh")
def test_a_bound_of_the_parent_is_no_wish_of_the_user(monkeypatch):
    monkeypatch.setenv(FIRST, "7")
    bound_kernel_caches()
    monkeypatch.setattr(devices, "_bounded", set())  # a process that inherits it
    bound_kernel_caches(STREAM)
    bound_kernel_caches()  # the first bound of a process counts
    assert bounds() == ("7", str(STREAM))
