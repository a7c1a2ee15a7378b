"""The small file of a run's named heads and head tables, which lies beside its model as `heads.json`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from qt_bert.errors import ArgumentError
from qt_bert.files import atomic_write
from qt_bert.results.codec import encode, read_result
from qt_bert.results.head_table import HeadTable, table_of
from qt_bert.results.probe import ModelRef, ProbeResult
from qt_bert.results.quantities import kept_scores

_NUMBERS = re.compile(r"\[\n[\s\d.,eE+\-nul]*\]")
"""A list of numbers in indented JSON; line breaks stand in no text there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadsFile:
    """What the probes of a run say of every head of one model; `model.sha256` is that of its weights."""

    kind: ClassVar[str] = "heads"
    schema: Literal[1] = 1
    model: ModelRef
    versions: dict[str, str]
    probes: tuple[HeadTable, ...]

    def write(self, path: Path) -> None:
        """Store the file, atomically; the same figures give the same bytes."""
        text = json.dumps(encode(self), ensure_ascii=False, indent=0, allow_nan=False)
        with atomic_write(path) as temporary:
            temporary.write_text(_NUMBERS.sub(_on_one_line, text) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> HeadsFile:
        """Read a stored file. Raises RunFolderError naming the key that does not fit."""
        return read_result(cls, path)


def heads_file(results: Sequence[ProbeResult], versions: Mapping[str, str]) -> HeadsFile:
    """The file of a run's results, with the scores that some quantity reads.

    Raises ArgumentError for no results, or results of different weights.
    """
    if not results:
        raise ArgumentError("no probe of this run is finished, so there are no heads to save")
    models = {result.model.sha256 for result in results}
    if len(models) > 1:
        raise ArgumentError("the results are of different models; save the heads of one run")
    return HeadsFile(
        model=results[0].model,
        versions=dict(sorted(versions.items())),
        probes=tuple(head_tables(results)),
    )


def head_tables(results: Iterable[ProbeResult]) -> list[HeadTable]:
    """The results' tables in the order of the report, with the scores that some quantity reads."""
    ordered = sorted(results, key=lambda result: (result.order, result.probe))
    return [table_of(result, kept_scores(result.probe)) for result in ordered]


def _on_one_line(found: re.Match[str]) -> str:
    return "".join(found[0].split())
