"""What the probes find: of the model that ships in the quick report, of tiny models under `--full`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.record import tiny as models
from tests.record.make import Part, Value, command, store
from tests.record.shipped import GRADED, TEST

RESAMPLES = 2000
TINY_RESAMPLES = 200
NUMBERS = ("value", "ci_low", "ci_high", "p", "n_queries")


def report(into: Path, work: Path) -> None:
    """The quick report of the model that ships, on its test split."""
    command(
        *("report", "--model", GRADED, "--pairs", TEST, "--out", work / "run"),
        *("--resamples", RESAMPLES, "--seed", 0),
    )
    _store(into / "report", work / "run")


def read(run: Path) -> Part:
    """A report that somebody made."""
    return lambda into, work: _store(into / "report", run)


def tiny(into: Path, work: Path) -> None:
    """The full report of each tiny model."""
    for name, options in models.made(work):
        command(
            *("report", "--full", *options, "--out", work / name / "run"),
            *("--resamples", TINY_RESAMPLES, "--seed", 0),
        )
        _store(into / "tiny" / name, work / name / "run")


def _store(into: Path, run: Path) -> None:
    for path in sorted((run / "probes").glob("*.json")):
        store(into / path.name, extract(json.loads(path.read_text(encoding="utf-8"))))


def extract(result: dict[str, Any]) -> dict[str, Value]:
    """Of a probe's JSON the scores and sets of heads, and the numbers of all that it measured."""
    return {
        "heads": _columns(result.get("heads", [])),
        "sets": result.get("sets", {}),
        "values": {
            one["id"]: {name: one.get(name) for name in NUMBERS} for one in _measured(result)
        },
    }


def _measured(result: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for name in ("claims", "measurements"):
        yield from result.get(name, ())


def _columns(heads: list[dict[str, Any]]) -> dict[str, Value]:
    if not heads:
        return {}
    names = dict.fromkeys(name for one in heads for name in one["scores"])
    return {"head": [one["head"] for one in heads]} | {
        name: [one["scores"].get(name) for one in heads] for name in names
    }
