"""The output of commands: tables on standard output, notes on standard error; exit states when stopped."""

from __future__ import annotations

import signal
import threading
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from qt_bert.files import one_writer
from qt_bert.text import Label, counted, digits_for, in_language, printable

if TYPE_CHECKING:
    from qt_bert.probes.wording import ClaimInWords, MeasurementInWords
    from qt_bert.results.probe import Measurement, SourcedClaim
    from qt_bert.scoring.judge import PairScorer


def width(text: str) -> int:
    """Columns a text takes on a terminal: Chinese characters take two."""
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def table(rows: Sequence[Sequence[str]], left: int = 1, *, sentence: bool = False) -> str:
    """Rows as aligned columns; the first `left` columns are flush left, the others right.

    With `sentence` the last column is flush left too, so that a narrow terminal wraps it alone.
    """
    rows = [[" ".join(printable(cell).splitlines()) for cell in row] for row in rows]
    last = len(rows[0]) - 1
    widths = [max(width(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = []
        for i, cell in enumerate(row):
            gap = " " * (widths[i] - width(cell))
            cells.append(cell + gap if i < left or (sentence and i == last) else gap + cell)
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def figure(value: float | None, digits: int = 3) -> str:
    """A number, or a dash for None."""
    return "–" if value is None else f"{value:.{digits}f}"


def count(number: int | None) -> str:
    """A number of items, or a dash for None."""
    return "–" if number is None else f"{number:,}"


def interval(metric: dict[str, Any], digits: int = 3) -> str:
    """`[low, high]`, or "" without an interval."""
    if metric.get("ci_low") is None:
        return ""
    return f"[{figure(metric['ci_low'], digits)}, {figure(metric['ci_high'], digits)}]"


def left_out(model: Mapping[str, Any]) -> str:
    """` without L2H1 (zero)` for a model described with heads left out, else ""."""
    return f" without {model['heads_out']} ({model['mode']})" if "heads_out" in model else ""


def metrics_table(evaluation: dict[str, Any]) -> str:
    """Every metric with its interval, n and, without a value, the reason."""
    rows = [("metric", "value", "95 % interval", "n", "")]
    metrics, reasons = with_value(evaluation["metrics"])
    for name, metric in metrics.items():
        n = f"{metric['n']:,}"
        if metric.get("n_queries") is not None:
            n = f"{metric['n_eligible']:,}/{metric['n_queries']:,} queries"
        reason = metric.get("reason") or ""
        rows.append((name, figure(metric["value"]), interval(metric), n, reason))
    model, pairs = evaluation["model"], evaluation["pairs"]
    name = f"{model['name']}{left_out(model)}"
    parts = [f"{name} on {pairs['name']}: {pairs['n_pairs']:,} pairs", "", table(rows), *reasons]
    for column, slices in evaluation["slices"].items():
        parts += ["", _slices_table(column, slices)]
    return "\n".join(parts)


def with_value(metrics: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The metrics that have a value, of one model at least, and a line for each reason of the others."""
    shown, others = dict[str, Any](), dict[str, list[str]]()
    for name, metric in metrics.items():
        facts = metric if isinstance(metric, dict) else asdict(metric)
        if all(facts.get(key) is None for key in ("value", "value_a", "value_b")):
            others.setdefault(facts.get("reason") or "", []).append(name)
        else:
            shown[name] = facts
    # `market cn: qwk`, `market us: qwk`: a metric that no slice has is named once
    some = {name.rpartition(": ")[2] for name in shown}

    def short(name: str) -> str:
        metric = name.rpartition(": ")[2]
        return name if metric in some else metric

    once = {reason: dict.fromkeys(map(short, names)) for reason, names in others.items()}
    return shown, [f"no {', '.join(names)}: {reason}" for reason, names in once.items()]


def differences_table(
    metrics: Mapping[str, Any], a: str, b: str, detect: float | None = None
) -> str:
    """Metrics of two models, named `a` and `b`, with their paired change, its interval and, if there, p and q; how
    many queries and labels would show a change of `detect`."""
    shown, reasons = with_value(metrics)
    tests = ["p", "q"] if any("q" in facts for facts in shown.values()) else []
    needs = [] if detect is None else [f"queries for {detect:g}", "labels"]
    rows = [["metric", a, b, f"{b} − {a}", "95 % interval", *tests, *needs, ""]]
    for name, facts in shown.items():
        values = [figure(facts[which]) for which in ("value_a", "value_b", "difference")]
        values += [interval(facts), *(figure(facts[test], 4) for test in tests)]
        counts = [count(facts.get(need)) for need in ("queries", "labels")[: len(needs)]]
        rows.append([name, *values, *counts, facts["reason"] or ""])
    return "\n".join([table(rows), *reasons])


def claims_table(claims: Sequence[ClaimInWords]) -> str:
    """Each claim in English with the source's figure, ours, its interval, p, q and the verdict."""
    rows = [
        ("verdict", "measured", "95 % interval", "margin", "p", "q", "queries", "source", "claim")
    ]
    for worded in claims:
        claim = worded.claim
        source, value, ends = _source_and_value(claim, worded.unit)
        p, q = figure(claim.p, 4), figure(claim.q, 4)
        numbers = (value, ends, worded.margin, p, q, f"{claim.n_queries:,}")
        reason = f" (not decided: {worded.reason.en})" if worded.reason.en else ""
        rows.append((worded.verdict.en, *numbers, source, worded.text.en + reason))
    return table(rows, sentence=True)


def measurements_table(measurements: Sequence[MeasurementInWords]) -> str:
    """Each measurement in English with the source's figure, ours, its interval and the queries."""
    rows = [("measured", "95 % interval", "queries", "source", "measurement")]
    for worded in measurements:
        measurement = worded.measurement
        queries = f"{measurement.n_queries:,}" if measurement.n_queries else ""
        source, value, ends = _source_and_value(measurement, worded.unit)
        rows.append((value, ends, queries, source, worded.text.en))
    return table(rows, left=0, sentence=True)


def _source_and_value(measured: SourcedClaim | Measurement, unit: Label) -> tuple[str, str, str]:
    """The source's figure, ours in its unit, and the interval."""
    source, ends = measured.source.value, {"ci_low": measured.ci_low, "ci_high": measured.ci_high}
    digits = digits_for(measured.value, *ends.values())
    return (
        figure(source) if isinstance(source, float | None) else in_language(source, "en"),
        f"{figure(measured.value, digits)} {in_language(unit, 'en')}".rstrip(),
        interval(ends, digits),
    )


def _slices_table(column: str, slices: dict[str, Any]) -> str:
    names = [
        name
        for name in next(iter(slices.values()))
        if any(metrics[name]["value"] is not None for metrics in slices.values())
    ]
    rows = [(column, "n", *names)]
    for value, metrics in slices.items():
        n = f"{next(iter(metrics.values()))['n']:,}"
        rows.append((value, n, *(_with_queries(metrics[name]) for name in names)))
    return table(rows)


def _with_queries(metric: dict[str, Any]) -> str:
    """A figure; for ranking metrics with the eligible and all queries: `0.913 (12/40)`."""
    value = figure(metric["value"])
    if metric.get("n_queries") is None:
        return value
    return f"{value} ({metric['n_eligible']:,}/{metric['n_queries']:,})"


def note(text: str) -> None:
    """Print a line on standard error, where it spoils no data, and go on."""
    typer.echo(text, err=True)


@contextmanager
def resumable(out: Path | None) -> Iterator[None]:
    """For work on `out` that --resume continues: Ctrl-C and SIGTERM end it with a message and status 130 or
    143, after all clean-up. `out` (None: cannot be locked) is locked: another process gets RunFolderError."""
    try:
        with nullcontext() if out is None else one_writer(out), _terminable():
            yield
    except KeyboardInterrupt as stopped:
        note("interrupted; --resume goes on where it stopped")
        raise typer.Exit(143 if isinstance(stopped, _Terminated) else 130) from None


class _Terminated(KeyboardInterrupt):
    """SIGTERM arrived."""


@contextmanager
def _terminable() -> Iterator[None]:
    """In the block SIGTERM acts as Ctrl-C, in the main thread (others get no signals)."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*signaled: Any) -> NoReturn:
        raise _Terminated

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before or signal.SIG_DFL)  # None: not set from Python


def note_rejects(rejected: int, listed: Path | None) -> None:
    """Print how many rows were rejected, and where they are listed."""
    if rejected:
        where = f"listed in {listed}" if listed else "list them with --rejects FILE"
        note(f"{counted(rejected, 'row')} rejected, {where}")


def note_counts(scorer: PairScorer) -> None:
    """Print how many texts were cut, or how many pairs and scores of a column have no partner."""
    for line in scorer.notes():
        note(line)
