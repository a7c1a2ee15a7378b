"""What the probes find: of the model that ships in the quick report, of tiny models under `--full`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.record import tiny as models
from tests.record.ids import renamed, table
from tests.record.make import Part, Value, command, store
from tests.record.samples import Samples
from tests.record.shipped import GRADED, TEST

RESAMPLES = 2000
TINY_RESAMPLES = 200
NUMBERS = ("value", "ci_low", "ci_high", "p", "n_queries")


def report(recorded: Path | None) -> Part:
    """The quick report of the model that ships, on its test split."""

    def part(into: Path, work: Path) -> None:
        samples = _samples(recorded, "report")
        with samples.given():
            command(
                *("report", "--model", GRADED, "--pairs", TEST, "--out", work / "run"),
                *("--resamples", RESAMPLES, "--seed", 0),
            )
        _store(into / "report", work / "run", samples)

    return part


def read(run: Path) -> Part:
    """A report that somebody made, whatever samples it took."""
    return lambda into, work: _store(into / "report", run, None)


def tiny(recorded: Path | None) -> Part:
    """The full report of each tiny model."""

    def part(into: Path, work: Path) -> None:
        for name, options in models.made(work):
            samples = _samples(recorded, f"tiny/{name}")
            with samples.given():
                command(
                    *("report", "--full", *options, "--out", work / name / "run"),
                    *("--resamples", TINY_RESAMPLES, "--seed", 0),
                )
            _store(into / "tiny" / name, work / name / "run", samples)

    return part


def _samples(recorded: Path | None, part: str) -> Samples:
    """The samples and heads that a record holds of a part, by their present names; or none."""
    if recorded is None:
        return Samples()
    ids, stored = table("ids"), {}
    for path in sorted((recorded / part).glob("*.json")):
        one, place = json.loads(path.read_text(encoding="utf-8")), f"{part}/{path.stem}"
        now = renamed(place, ids)
        stored[now.rpartition("/")[2]] = {
            section: {
                renamed(f"{place}/{section}/{name}", ids).removeprefix(f"{now}/{section}/"): value
                for name, value in one[section].items()
            }
            for section in ("samples", "heads", "sets")
        }
    return Samples({name: one["samples"] for name, one in stored.items()}, stored)


def _store(into: Path, run: Path, samples: Samples | None) -> None:
    for path in sorted((run / "probes").glob("*.json")):
        result = json.loads(path.read_text(encoding="utf-8"))
        used = {} if samples is None else samples.used.get(path.stem, {})
        store(into / path.name, {"samples": dict(sorted(used.items())), **extract(result)})


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
