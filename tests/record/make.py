"""`make record`: write what the package computes, for `check.py` to compare a later tree with.

The package is reached through its commands and the files that they leave, in this one process, so
that little here knows its modules. README.md says what is held and how it is compared.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}

ROOT = Path(__file__).resolve().parents[2]
VALUES = Path(__file__).resolve().parent / "values"
DIGITS = 9
"""Significant digits of a stored number: more than float32 has."""
DROPPED = {"schema", "guards", "path", "seconds", "versions", "source", "key", "speed"}
"""Keys of JSON output that say how a run went or where its files lay, and not what came out."""

Value = Any
"""Plain JSON data: text, numbers, lists and dictionaries of them."""


@dataclass(frozen=True, slots=True)
class Output:
    """What a command left: exit status, standard output, standard error."""

    status: int
    out: str
    err: str


def command(*arguments: object, fails: bool = False) -> Output:
    """Run `qt-bert` with these arguments in this process.

    Raises RuntimeError where it exits with another status than 0, unless `fails` allows that.
    """
    from qt_bert.cli import main

    out, err, status = io.StringIO(), io.StringIO(), 0
    before, sys.argv = sys.argv, ["qt-bert", *map(str, arguments)]
    try:
        with redirect_stdout(out), redirect_stderr(err):
            main()
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    finally:
        sys.argv = before
    if status and not fails:
        raise RuntimeError(f"qt-bert {' '.join(map(str, arguments))}: {status}\n{err.getvalue()}")
    return Output(status, out.getvalue(), err.getvalue())


def cleaned(value: Value) -> Value:
    """JSON data without the keys DROPPED and without hashes, at any depth."""
    if isinstance(value, dict):
        kept = (name for name in value if name not in DROPPED and not name.endswith("sha256"))
        return {name: cleaned(value[name]) for name in kept}
    return [cleaned(one) for one in value] if isinstance(value, list) else value


def columns(rows: list[dict[str, Value]], name: str) -> dict[str, Value]:
    """Rows as one list a column, by the column `name`: sorted by it, which no rounding moves."""
    rows = sorted(rows, key=lambda row: str(row[name]))
    return {column: [row.get(column) for row in rows] for column in rows[0]} if rows else {}


def store(path: Path, value: Value) -> None:
    """Write `value` as JSON, a dictionary's entry a line and a list on one line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_lines(value, "") + "\n", encoding="utf-8")


def _lines(value: Value, indent: str) -> str:
    if isinstance(value, dict) and value:
        inner = indent + " "
        entries = (
            f"{inner}{json.dumps(name, ensure_ascii=False)}: {_lines(one, inner)}"
            for name, one in value.items()
        )
        return "{\n" + ",\n".join(entries) + f"\n{indent}}}"
    return json.dumps(_rounded(value), ensure_ascii=False)


def _rounded(value: Value) -> Value:
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        return {name: _rounded(one) for name, one in value.items()}
    return [_rounded(one) for one in value] if isinstance(value, list | tuple) else value


Part = Callable[[Path, Path], None]
"""Writes its files into the first folder, and may leave what it likes in the second."""


def parts(report: Path | None = None) -> dict[str, Part]:
    """Every part by name, in the order they are made; `report` is a run to read in place of making one."""
    from tests.record import probes, rejects, shipped

    return {
        "score": shipped.score,
        "evaluate": shipped.evaluate,
        "compare": shipped.compare,
        "explain": shipped.explain,
        "sweep": shipped.sweep,
        "rejects": rejects.rejects,
        "tiny": probes.tiny,
        "report": probes.report if report is None else probes.read(report),
    }


def make(names: list[str], into: Path, made: dict[str, Part]) -> None:
    """Write the parts `names` into `into`, in place of what is there of them."""
    import torch

    torch.set_num_threads(1)
    into.mkdir(parents=True, exist_ok=True)
    for name in names:
        for old in into.glob(f"{name}*"):
            shutil.rmtree(old) if old.is_dir() else old.unlink()
        start = time.perf_counter()
        with tempfile.TemporaryDirectory() as work, chdir(ROOT):
            made[name](into, Path(work))
        print(f"{name}: {time.perf_counter() - start:.0f} s", file=sys.stderr)


def chosen(only: str | None) -> list[str]:
    """The parts that `--only` names, in their order; all without it."""
    known = list(parts())
    asked = known if only is None else only.split(",")
    if strange := sorted(set(asked) - set(known)):
        sys.exit(f"no part {strange[0]!r}; there are {', '.join(known)}")
    return [name for name in known if name in asked]


def main() -> None:
    parser = argparse.ArgumentParser(prog="record", description=__doc__)
    parser.add_argument("--only", metavar="PART,PART", help="make these parts alone")
    parser.add_argument("--into", type=Path, default=VALUES, help="folder [default: the record]")
    asked = parser.parse_args()
    make(chosen(asked.only), asked.into.resolve(), parts())


if __name__ == "__main__":
    main()
