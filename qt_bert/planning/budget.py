"""`--budget`: what of a model may stay, as a share or as a number."""

from __future__ import annotations

import re
from typing import get_args

from qt_bert.errors import ArgumentError
from qt_bert.results.plan import Budget, BudgetKind

KINDS: tuple[BudgetKind, ...] = get_args(BudgetKind)
_FORM = re.compile(r"([a-z]+)=([0-9]*\.?[0-9]+)(M?)", re.IGNORECASE)
_MILLION = 1_000_000
_HOW = (
    "write heads=, layers=, latency= or params=; with a point the share that is kept (heads=0.6, "
    "latency=0.5), without one the number (layers=6, params=4000000 or params=4M)"
)


def parse_budget(text: str) -> Budget:
    """The budget that `text` (`heads=0.6`, `layers=6`, `params=4M`) asks for.

    With a point it is the share of the model's own that is kept, above 0 and below 1; without, the
    number kept. Latency is a share. Raises ArgumentError for anything else.
    """
    found = _FORM.fullmatch(text.strip())
    kind = next((one for one in KINDS if found and found[1].lower() == one), None)
    if found is None or kind is None:
        raise ArgumentError(f"--budget {text!r}: {_HOW}")
    number, millions = float(found[2]), bool(found[3])
    if millions and kind != "params":
        raise ArgumentError(f"--budget {text!r}: M, for millions, goes with params alone")
    share = "." in found[2] and not millions
    if share and not 0 < number < 1:
        raise ArgumentError(
            f"--budget {text!r}: with a point it is the share kept, above 0 and below 1; "
            f"for a number leave the point out"
        )
    if not share and kind == "latency":
        raise ArgumentError(f"--budget {text!r}: a latency is a share of the model's: latency=0.5")
    if number == 0:
        raise ArgumentError(f"--budget {text!r}: something must stay")
    value = number * _MILLION if millions else number
    return Budget(kind_of=kind, value=value, share=share, asked=text.strip())


def count_kept(budget: Budget, total: int) -> int:
    """How many of `total` heads or layers stay.

    Raises ArgumentError where that is none, all or more; the message names what there can be.
    """
    kept = round(budget.value * total) if budget.share else int(budget.value)
    if 1 <= kept < total:
        return kept
    what, one = budget.kind_of, budget.kind_of[:-1]
    if total == 1:
        raise ArgumentError(
            f"--budget {budget.asked}: the model has a single {one}, which cannot go"
        )
    meant = "none" if kept < 1 else "all" if kept == total else str(kept)
    raise ArgumentError(
        f"--budget {budget.asked} keeps {meant} of the model's {total} {what}; give {what}=1 to "
        f"{what}={total - 1}, or a share from {_least(total)} to {_most(total)}"
    )


def _least(total: int) -> str:
    """The smallest share, in two digits where they do, that keeps one of `total`."""
    return next(text for text in _shares(total) if round(float(text) * total) >= 1)


def _most(total: int) -> str:
    """The largest share that does not keep all of `total`."""
    return next(
        text for text in reversed(list(_shares(total))) if round(float(text) * total) < total
    )


def _shares(total: int) -> list[str]:
    digits = 2 if total <= 50 else 3 if total <= 500 else 4
    return [f"{step / 10**digits:.{digits}f}" for step in range(1, 10**digits)]
