"""Plain tables for a terminal."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from qt_bert.results.text import in_language

if TYPE_CHECKING:
    from qt_bert.results import Finding


def width(text: str) -> int:
    """Columns a text takes on a terminal: Chinese characters take two."""
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def table(rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Rows as aligned columns; the first `left` columns are flush left, the others right."""
    widths = [max(width(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = []
        for i, cell in enumerate(row):
            gap = " " * (widths[i] - width(cell))
            cells.append(cell + gap if i < left else gap + cell)
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


def read_apart(model: Mapping[str, Any]) -> str:
    """` (offline layers: the lowest 6)` for an offline model, else nothing."""
    layers = model.get("offline", {}).get("layers")
    return "" if layers is None else f" (offline layers: the lowest {layers})"


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
    name = f"{model['name']}{read_apart(model)}{left_out(model)}"
    head = f"{name} on {pairs['name']}: {pairs['n_pairs']:,} pairs"
    parts = [head, "", table([row[:4] + (row[4],) for row in rows])]
    for column, slices in found["slices"].items():
        parts += ["", _slices_table(column, slices)]
    return "\n".join(parts)


def differences_table(metrics: Mapping[str, Any], a: str, b: str) -> str:
    """Metrics of two models, called `a` and `b`, with their paired change and its interval."""
    rows: list[Sequence[str]] = [("metric", a, b, "change", "95 % interval", "")]
    for name, one in metrics.items():
        values = (figure(value) for value in (one.value_a, one.value_b, one.difference))
        ends = interval({"ci_low": one.ci_low, "ci_high": one.ci_high})
        rows.append((name, *values, ends, one.reason or ""))
    return table(rows)


def findings_table(findings: Sequence[Finding]) -> str:
    """Each claim in English with the source's figure, ours, its interval, q and the verdict."""
    rows = [("claim", "source", "measured", "95 % interval", "q", "verdict")]
    for found in findings:
        source = found.source.value
        digits = 3 if abs(found.value or 0) < 1 else 2
        unit = in_language(found.unit, "en")
        ends = {"ci_low": found.ci_low, "ci_high": found.ci_high}
        rows.append(
            (
                found.claim.en,
                figure(source) if isinstance(source, float | None) else in_language(source, "en"),
                f"{figure(found.value, digits)} {unit}".rstrip(),
                interval(ends, digits),
                figure(found.q),
                found.verdict or "(no claim)",
            )
        )
    return table(rows)


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
