"""A run's results as Markdown in each language: `results.md` and `results.zh-CN.md`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from qt_bert.files import atomic_write
from qt_bert.probes.wording import (
    ClaimInWords,
    MeasurementInWords,
    measurements_in_words,
    queries_needed,
)
from qt_bert.report.blocks import Interval, wording
from qt_bert.report.evaluation import as_interval, in_groups
from qt_bert.report.frontier import in_one_sentence
from qt_bert.report.probes import measured, source_place, source_value
from qt_bert.report.stored import ClaimOf, Stored
from qt_bert.run.folder import RunFolder, profile_of
from qt_bert.text import Label, in_language, interval, number

Localise = Callable[[Label], str]
FILES = {"en": "results.md", "zh": "results.zh-CN.md"}


def save_results(folder: RunFolder, out: Path) -> tuple[Path, ...]:
    """Write the results of the run into the folder `out`, a file a language; return their paths."""
    out.mkdir(parents=True, exist_ok=True)
    stored = Stored(folder)
    for language, name in FILES.items():
        with atomic_write(out / name) as temporary:
            temporary.write_text("\n".join(_lines(stored, language)) + "\n", encoding="utf-8")
    return tuple(out / name for name in FILES.values())


def _lines(stored: Stored, language: str) -> Iterator[str]:
    inputs, evaluation = stored.folder.record.inputs, stored.evaluation

    def localised(label: Label) -> str:
        return in_language(label, language).replace("|", "\\|")

    def words(name: str, **facts: object) -> str:
        return localised(wording(name, **facts))

    yield f"# {words('results', model=inputs.model.name, pairs=inputs.pairs.name)}"
    yield from ("", words("results_made", profile=profile_of(inputs)))
    if stored.claims:
        yield from ("", f"## {words('claims')}", "")
        heads = (
            "claim",
            "verdict",
            "measured_interval",
            "source_figure",
            "margin",
            "queries_needed",
        )
        yield from _table([words(name) for name in heads])
        yield from (_row(_claim(row, localised)) for row in stored.claims)
    if smaller := list(in_one_sentence(stored.frontier, stored.plan)):
        yield from ("", f"## {words('plan')}", "")
        yield from map(localised, smaller)
    if evaluation is not None:
        yield from ("", f"## {words('quality')}", "")
        yield from _table(
            [words(name) for name in ("metric", "measured_interval", "without_grade_1_column")]
        )
        for _, name, metric in in_groups(evaluation.metrics):
            harder = evaluation.without_grade_1.get(name)
            yield _row(
                (name, _shown(as_interval(metric)), _shown(as_interval(harder)) if harder else "")
            )
    for result in stored.probes:
        yield from (
            "",
            f"## {localised(result.heading)} (`{result.probe}`)",
            "",
            localised(result.summary),
        )
        if measurements := measurements_in_words(result):
            yield ""
            columns = ("measurement", "measured_interval", "source_figure", "place")
            yield from _table([words(name) for name in columns])
            yield from (_row(_measurement(row, localised)) for row in measurements)


def _claim(row: ClaimOf, localised: Localise) -> tuple[str, ...]:
    claim = row.worded.claim
    needs = claim.needs_queries
    return (
        localised(row.worded.short),
        localised(row.worded.verdict),
        _in_unit(row.worded, localised),
        _label(source_value(claim.source), localised),
        row.worded.margin,
        "" if needs is None else localised(queries_needed(needs)),
    )


def _measurement(row: MeasurementInWords, localised: Localise) -> tuple[str, ...]:
    return (
        localised(row.text),
        _in_unit(row, localised),
        _label(source_value(row.measurement.source), localised),
        source_place(row.measurement.source),
    )


def _in_unit(row: ClaimInWords | MeasurementInWords, localised: Localise) -> str:
    return f"{_shown(measured(row))} {localised(row.unit)}".rstrip()


def _label(label: Label | None, localised: Localise) -> str:
    return "" if label is None else localised(label)


def _shown(value: Interval) -> str:
    digits = 3 if value.digits is None else value.digits
    return f"{number(value.value, digits)} {interval(value.low, value.high, digits)}".rstrip()


def _table(heads: Sequence[str]) -> Iterator[str]:
    yield _row(heads)
    yield _row(["---"] * len(heads))


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
