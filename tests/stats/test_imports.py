from __future__ import annotations

import subprocess
import sys

HEAVY = {"torch", "sklearn", "pandas", "scipy", "transformers", "jieba"}


def test_the_room_loads_nothing_heavy() -> None:
    command = "import sys, qt_bert.stats; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", command], capture_output=True, text=True, check=True
    )
    assert not HEAVY & set(done.stdout.split())
