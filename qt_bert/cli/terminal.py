"""From options to objects: readers, checkpoints, scorers; and plain tables for a terminal."""

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
from qt_bert.text import Label, digits_for, in_language

if TYPE_CHECKING:
    from qt_bert.probes.wording import ClaimInWords, MeasurementInWords
    from qt_bert.results.probe import Measurement, SourcedClaim
    from qt_bert.scoring.judge import PairScorer


# Plain tables for a terminal.


def width(text: str) -> int:
    """Columns a text takes on a terminal: Chinese characters take two."""
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def table(rows: Sequence[Sequence[str]], left: int = 1, *, sentence: bool = False) -> str:
    """Rows as aligned columns; the first `left` columns are flush left, the others right.

    The last column of a `sentence` is flush left too: a narrow terminal breaks it, and no number.
    """
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
    """A number, or a dash where there is none."""
    return "–" if value is None else f"{value:.{digits}f}"


def interval(metric: dict[str, Any], digits: int = 3) -> str:
    """`[low, high]`, or nothing where there is none."""
    if metric.get("ci_low") is None:
        return ""
    return f"[{figure(metric['ci_low'], digits)}, {figure(metric['ci_high'], digits)}]"


def left_out(model: Mapping[str, Any]) -> str:
    """` without L2H1 (zero)` for a model described with heads left out, else nothing."""
    return f" without {model['heads_out']} ({model['mode']})" if "heads_out" in model else ""


def metrics_table(found: dict[str, Any]) -> str:
    """Every metric with its interval, n and, where it has no value, the reason."""
    rows = [("metric", "value", "95 % interval", "n", "")]
    for name, metric in found["metrics"].items():
        n = f"{metric['n']:,}"
        if metric.get("n_queries") is not None:
            n = f"{metric['n_eligible']:,}/{metric['n_queries']:,} queries"
        reason = metric.get("reason") or ""
        rows.append((name, figure(metric["value"]), interval(metric), n, reason))
    model, pairs = found["model"], found["pairs"]
    name = f"{model['name']}{left_out(model)}"
    head = f"{name} on {pairs['name']}: {pairs['n_pairs']:,} pairs"
    parts = [head, "", table([row[:4] + (row[4],) for row in rows])]
    for column, slices in found["slices"].items():
        parts += ["", _slices_table(column, slices)]
    return "\n".join(parts)


def differences_table(metrics: Mapping[str, Any], a: str, b: str) -> str:
    """Metrics of two models, called `a` and `b`, with their paired change and its interval."""
    rows: list[Sequence[str]] = [("metric", a, b, "change", "95 % interval", "")]
    for name, one in metrics.items():
        of = one if isinstance(one, dict) else asdict(one)
        values = (figure(of[which]) for which in ("value_a", "value_b", "difference"))
        rows.append((name, *values, interval(of), of["reason"] or ""))
    return table(rows)


def claims_table(claims: Sequence[ClaimInWords]) -> str:
    """Each claim in English with the source's figure, ours, its interval, p, q and the verdict."""
    rows = [
        ("verdict", "measured", "95 % interval", "margin", "p", "q", "queries", "source", "claim")
    ]
    for said in claims:
        found = said.claim
        there, value, ends = _source_and_value(found, said.unit)
        p, q = figure(found.p, 4), figure(found.q, 4)
        numbers = (value, ends, said.margin, p, q, f"{found.n_queries:,}")
        why = f" (not decided: {said.reason.en})" if said.reason.en else ""
        rows.append((said.verdict.en, *numbers, there, said.text.en + why))
    return table(rows, sentence=True)


def measurements_table(measurements: Sequence[MeasurementInWords]) -> str:
    """Each measurement in English with the source's figure, ours, its interval and the queries."""
    rows = [("measured", "95 % interval", "queries", "source", "measurement")]
    for said in measurements:
        found = said.measurement
        queries = f"{found.n_queries:,}" if found.n_queries else ""
        there, value, ends = _source_and_value(found, said.unit)
        rows.append((value, ends, queries, there, said.text.en))
    return table(rows, left=0, sentence=True)


def _source_and_value(found: SourcedClaim | Measurement, unit: Label) -> tuple[str, str, str]:
    """The source's figure, ours in its unit, and the interval."""
    source = found.source.value
    digits = digits_for(found.value, found.ci_low, found.ci_high)
    there = figure(source) if isinstance(source, float | None) else in_language(source, "en")
    ends = {"ci_low": found.ci_low, "ci_high": found.ci_high}
    return (
        there,
        f"{figure(found.value, digits)} {in_language(unit, 'en')}".rstrip(),
        interval(ends, digits),
    )


def _slices_table(column: str, slices: dict[str, Any]) -> str:
    names = list(next(iter(slices.values())))
    rows = [(column, "n", *names)]
    for value, metrics in slices.items():
        n = f"{next(iter(metrics.values()))['n']:,}"
        rows.append((value, n, *(_with_queries(metrics[name]) for name in names)))
    return table(rows)


def _with_queries(metric: dict[str, Any]) -> str:
    """A figure; one of order with the queries it rests on, of how many: `0.913 (12/40)`."""
    shown = figure(metric["value"])
    if metric.get("n_queries") is None:
        return shown
    return f"{shown} ({metric['n_eligible']:,}/{metric['n_queries']:,})"


# From options to objects: the reader's options, the checkpoint, the scorer, its calibration.


def note(text: str) -> None:
    """A line for the person at the terminal: standard error, so that data keeps standard output."""
    typer.echo(text, err=True)


@contextmanager
def resumable(out: Path | None) -> Iterator[None]:
    """Around work on `out` that goes on where it stopped: says so on Ctrl-C, and on SIGTERM, by which
    schedulers stop what they run; ends with status 130 or 143, behind all that tidies up. No other
    process may write there meanwhile (RunFolderError);
    None is a place that cannot be locked."""
    try:
        with nullcontext() if out is None else one_writer(out), _terminable():
            yield
    except KeyboardInterrupt as stopped:
        note("interrupted; --resume goes on where it stopped")
        raise typer.Exit(143 if isinstance(stopped, _Terminated) else 130) from None


class _Terminated(KeyboardInterrupt):
    """SIGTERM came."""


@contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM does as Ctrl-C does in the block, if this is the thread that hears signals."""
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
    """Say how many rows were no pairs, and where they are listed."""
    if rejected:
        where = f"listed in {listed}" if listed else "list them with --rejects FILE"
        note(f"{rejected:,} rows rejected, {where}")


def note_truncation(scorer: PairScorer) -> None:
    """Say how many texts did not fit."""
    counts = scorer.counts
    if counts.truncated_titles or counts.truncated_queries:
        note(
            f"{counts.truncated_titles:,} titles and {counts.truncated_queries:,} queries of "
            f"{counts.pairs:,} pairs were cut at {scorer.tokenizer.max_length} tokens "
            "(--max-length)"
        )
