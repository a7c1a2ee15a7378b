"""Budgets of heads and layers."""

from __future__ import annotations

import re

from qt_bert.errors import ArgumentError
from qt_bert.results.plan import Budget, BudgetKind

_FORM = re.compile(r"(heads|layers)=([0-9]{0,9}\.?[0-9]{1,30})", re.IGNORECASE)
_HOW = (
    "write heads= or layers=; with a point the share that is kept (heads=0.6), without one the number "
    "(layers=6); shapes by their latency: qt-bert plan without --budget"
)


def parse_budget(text: str) -> Budget:
    """The budget of `text` (`heads=0.6`, `layers=6`): with a point the share that is kept, above 0 and below
    1; without, the number. Raises ArgumentError for any other text."""
    match = _FORM.fullmatch(text.strip())
    if match is None:
        raise ArgumentError(f"--budget {text!r}: {_HOW}")
    kind: BudgetKind = "heads" if match[1].lower() == "heads" else "layers"
    number, share = float(match[2]), "." in match[2]
    if share and not 0 < number < 1:
        raise ArgumentError(
            f"--budget {text!r}: with a point it is the share kept, above 0 and below 1; "
            f"for a number leave the point out"
        )
    if number == 0:
        raise ArgumentError(f"--budget {text!r}: nothing is left; give a number above 0")
    return Budget(kind_of=kind, value=number, share=share, asked=text.strip())


def count_kept(budget: Budget, total: int, sharing: int = 1) -> int:
    """How many of `total` heads or layers stay, in groups of `sharing` heads that share a key.

    Raises ArgumentError where that is none, all, more or a part of a group, naming the possible numbers.
    """
    groups = total // sharing
    kept = sharing * round(budget.value * groups) if budget.share else int(budget.value)
    if sharing <= kept < total and kept % sharing:
        raise ArgumentError(
            f"--budget {budget.asked}: each {sharing} heads of the model share one key and value and go "
            f"together; give heads={kept - kept % sharing}, or another multiple of {sharing}"
        )
    if sharing <= kept < total:
        return kept
    plural, singular = budget.kind_of, budget.kind_of[:-1]
    if groups == 1:
        raise ArgumentError(
            f"--budget {budget.asked}: the model has a single {singular if total == 1 else 'group of heads'}, "
            "which cannot go"
        )
    count = "none" if kept < 1 else "all" if kept == total else str(kept)
    raise ArgumentError(
        f"--budget {budget.asked} keeps {count} of the model's {total} {plural}; give {plural}={sharing} to "
        f"{plural}={total - sharing}, or a share from {_shares(groups)}"
    )


def _shares(total: int) -> str:
    """The range of shares that keep some but not all of `total`, in as few digits as possible."""
    digits = 2 if total <= 50 else 3 if total <= 500 else 4
    shares = [f"{step / 10**digits:.{digits}f}" for step in range(1, 10**digits)]
    fitting = [share for share in shares if 1 <= round(float(share) * total) < total]
    return f"{fitting[0]} to {fitting[-1]}"
