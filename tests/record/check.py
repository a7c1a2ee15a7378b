"""`make record-check`: make the record anew, and list by name what moved, is new or is gone.

An id is the path of a value: the file without its suffix, then the keys down to a number, a text or
a list (`report/boundary/values/best_head/ci_low`). `ties.toml` says what rounding alone moves; exit
status 1 where anything else moved or is gone.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from tests.record.make import VALUES, Value, chosen, make, parts

TIES = Path(__file__).with_name("ties.toml")
LABELS = ("head", "name", "id", "pairs", "variants")
"""Lists whose entries name those of the lists beside them."""

TOLERANCES: tuple[tuple[str, float, float], ...] = (
    ("sweep.logits", 2e-5, 0.0),
    ("score/*/p_*", 2e-5, 0.0),
    ("score/*", 1e-4, 0.0),
    ("explain/*", 1e-4, 0.0),
    ("*/heads/*", 1e-4, 1e-4),
    ("*", 1e-3, 1e-4),
)
"""By glob, the first that fits: what a number may move, absolutely or as a share of it."""
DRAWS = (100, 200, 201, 1000, 2000, 2001, 10_000)
"""Numbers of draws, the observed one with them, that a p-value may be a share of."""


@dataclass(slots=True)
class Comparison:
    """What moved, is new or is gone: a line each. `named` holds what is listed in `ties.toml`."""

    moved: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    named: dict[str, list[str]] = field(default_factory=dict)

    @property
    def status(self) -> int:
        """1 where something moved or went without being named, else 0."""
        return int(bool(self.moved or self.gone))


def compare(
    old: dict[str, Value], new: dict[str, Value], ties: dict[str, str] | None = None
) -> Comparison:
    """Compare flat records; what fits a glob of `ties` is listed apart."""
    result = Comparison(named={glob: [] for glob in ties or {}})
    for name, value in old.items():
        if name in new and (change := difference(name, value, new[name], new)):
            _list(result, result.moved, name, f"{name} {change}")
    for names, other, lines in ((old, new, result.gone), (new, old, result.new)):
        for name in dict.fromkeys(_highest(one, other) for one in names if one not in other):
            _list(result, lines, name, name)
    return result


def _list(result: Comparison, lines: list[str], name: str, line: str) -> None:
    """Add a line to what is named, else to `lines`."""
    fits = (
        glob for glob in result.named if fnmatchcase(name, glob) or fnmatchcase(f"{name}/", glob)
    )
    glob = next(fits, None)
    (lines if glob is None or lines is result.new else result.named[glob]).append(line)


def _highest(name: str, other: dict[str, Value]) -> str:
    """The shortest beginning of a path under which the other record has nothing."""
    keys = name.split("/")
    for n in range(1, len(keys)):
        begun = "/".join(keys[:n])
        if not any(one == begun or one.startswith(f"{begun}/") for one in other):
            return begun
    return name


def difference(name: str, old: Value, new: Value, beside: dict[str, Value]) -> str | None:
    """How a value moved beyond its tolerance, in words; None where it did not."""
    if "/sets/" in name:
        return _sets(old, new)
    if not isinstance(old, list) or not isinstance(new, list):
        return f"{_text(old)} → {_text(new)}" if moved(name, old, new) else None
    if len(old) != len(new):
        return f"has {len(new)} entries in place of {len(old)}"
    far = [n for n in range(len(old)) if moved(name, old[n], new[n])]
    if not far:
        return None
    most = max(far, key=lambda n: _distance(old[n], new[n]))
    return (
        f"{len(far)} of {len(old)} moved, most at {_label(name, most, beside)}: "
        f"{_text(old[most])} → {_text(new[most])}"
    )


def moved(name: str, old: Value, new: Value) -> bool:
    """Whether a number is beyond its tolerance, or anything else another."""
    if old == new:
        return False
    if not _number(old) or not _number(new):
        return True
    if math.isnan(old) or math.isnan(new):
        return not (math.isnan(old) and math.isnan(new))
    if isinstance(old, int) and isinstance(new, int):
        return True
    absolute, share = next((a, s) for glob, a, s in TOLERANCES if fnmatchcase(name, glob))
    if name.endswith(("/p", "/q", "_p", "_q")):
        absolute, share = max(1e-4, *(one_draw(value) for value in (old, new))), 0.0
    return bool(abs(old - new) > absolute + share * abs(old))


def one_draw(p: float) -> float:
    """What one draw more or less adds to a p-value of two sides; 0 where it is no share of draws."""
    return next((2.02 / n for n in DRAWS if 0 < p < 1 and abs(p * n - round(p * n)) < 1e-5), 0.0)


def _sets(old: list[str], new: list[str]) -> str | None:
    left, joined = sorted(set(old) - set(new)), sorted(set(new) - set(old))
    if not left and not joined:
        return None
    return f"{len(old)} → {len(new)} heads, without {left or 'none'}, with {joined or 'none'}"


def _number(value: Value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _distance(old: Value, new: Value) -> float:
    return abs(old - new) if _number(old) and _number(new) else math.inf


def _label(name: str, n: int, beside: dict[str, Value]) -> str:
    room = name.rpartition("/")[0]
    lists = (beside.get(f"{room}/{label}") for label in LABELS)
    return next((str(one[n]) for one in lists if isinstance(one, list) and n < len(one)), f"[{n}]")


def _text(value: Value) -> str:
    return f"{value:.6g}" if isinstance(value, float) else json.dumps(value, ensure_ascii=False)


def flat(folder: Path, names: list[str]) -> dict[str, Value]:
    """All values of the parts `names` in a record's folder, by id."""
    import numpy as np

    found: dict[str, Value] = {}
    for path in sorted(folder.rglob("*.*")):
        name = path.relative_to(folder).with_suffix("").as_posix()
        if re.split("[/.]", name)[0] not in names:
            continue
        if path.suffix == ".npy":
            found[name] = np.load(path).ravel().tolist()
        else:
            found.update(_leaves(name, json.loads(path.read_text(encoding="utf-8"))))
    return found


def _leaves(name: str, value: Value) -> Iterator[tuple[str, Value]]:
    if isinstance(value, list) and any(isinstance(one, dict | list) for one in value):
        value = {str(n): one for n, one in enumerate(value)}
    if not isinstance(value, dict):
        yield name, value
        return
    for key, one in value.items():
        yield from _leaves(f"{name}/{key}", one)


def told(result: Comparison, ties: dict[str, str]) -> str:
    """The comparison in lines to read."""
    lines = []
    for title, names in (("moved", result.moved), ("gone", result.gone), ("new", result.new)):
        if names:
            lines += [f"{title}: {len(names)}", *(f"  {one}" for one in names)]
    for glob, names in result.named.items():
        lines += [f"named, {glob}: {len(names)} ({ties[glob]})", *(f"  {n}" for n in names)]
    lines.append("the record moved" if result.status else "nothing moved but what is named")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="record-check", description=__doc__)
    parser.add_argument("--only", metavar="PART,PART", help="check these parts alone")
    parser.add_argument(
        "--report", type=Path, help="compare this run folder, in place of a new run"
    )
    parser.add_argument("--made", type=Path, help="compare this folder of `make.py --into`")
    asked = parser.parse_args()
    names = chosen(asked.only)
    ties: dict[str, str] = tomllib.loads(TIES.read_text(encoding="utf-8"))["ties"]
    with tempfile.TemporaryDirectory() as work:
        made = asked.made or Path(work)
        if asked.made is None:
            make(names, made, parts(None if asked.report is None else asked.report.resolve()))
        result = compare(flat(VALUES, names), flat(made, names), ties)
    print(told(result, ties))
    sys.exit(result.status)


if __name__ == "__main__":
    main()
