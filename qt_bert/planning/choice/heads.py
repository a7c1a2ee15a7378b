"""Which heads go: the least harmful first, in rounds, the rest measured anew after each.

Heads stand in for each other, so that two which are harmless alone may do harm together (Michel et al.
2019, "Are Sixteen Heads Really Better than One?", section 4.2, prune step by step for that reason).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path

from qt_bert.ablation.families import MaskOf
from qt_bert.ablation.variant import NONE, Variant
from qt_bert.encoder.heads import Head, checked_heads
from qt_bert.errors import ArgumentError
from qt_bert.pairs import Pair
from qt_bert.planning.choice.losses import Losses
from qt_bert.planning.choice.runs import losses, parts_of
from qt_bert.progress import Progress, silent
from qt_bert.scoring.bulk import Scorer

ROUNDS = 3
_GONE = "skipped layers"


@dataclass(frozen=True)
class HeadPath:
    """An order of heads to leave out: of each budget the first so many go.

    `order`: heads in the order in which they go; `rounds`: in which round each of them went, from
    0; `effects`: what each head alone adds to the mean loss, nothing else being left out but the
    layers that were skipped from the start; `cost`: the variants that were run on the pairs, in full
    single-head sweeps.
    """

    order: tuple[Head, ...]
    rounds: tuple[int, ...]
    effects: dict[Head, float]
    cost: float


def choose_heads(
    scorer: Scorer,
    pairs: Sequence[Pair],
    out: int,
    *,
    mask: MaskOf,
    among: Sequence[Head] | None = None,
    skipped: Sequence[int] = (),
    rounds: int = ROUNDS,
    wide: float | None = None,
    first: Losses | None = None,
    work: Path | None = None,
    shown: Progress = silent,
) -> HeadPath:
    """`out` heads to leave out, chosen on `pairs` by the exact mean loss of leaving them out.

    Every round takes out its share of `out` (a third of three), those whose absence adds least, and
    the rest is measured anew without them. `among` limits the heads that may go; the layers
    `skipped` are gone as whole blocks. `wide`, for haste, limits what is measured anew to the heads
    that were least harmful in the round before, `wide` times as many as are still to go. `first` are
    the losses of `single_losses` where they are known, on these pairs or more; `work` is a folder in
    which the rounds are kept and resumed; `shown` counts variants × pairs.

    Raises ArgumentError for fewer than one head or more than may go, heads that the model does not
    have, heads of skipped layers, no round at all, `wide` below 1, and for pairs that cannot be judged.
    """
    pool = _pool(scorer, among, skipped)
    _check(out, len(pool), rounds, wide)
    measured = first.on(pairs) if first is not None else None
    measured = measured or single_losses(
        scorer, pairs, mask=mask, among=pool, skipped=skipped, work=work, shown=shown
    )
    start = measured.mean(_GONE if skipped else NONE.name)
    effects = {head: measured.mean(str(head)) - start for head in pool}
    left, runs = _by_loss(pool, measured), len(pool)
    gone: list[Head] = []
    went: list[int] = []
    for number, size in enumerate(_sizes(out, rounds)):
        if number:
            left = left[: None if wide is None else ceil(wide * (out - len(gone)))]
            variants = [_without([*gone, head], skipped, mask, str(head)) for head in left]
            name = f"heads-{number}"
            measured = losses(scorer, pairs, variants, work=work, name=name, shown=shown)
            left, runs = _by_loss(left, measured), runs + len(left)
        gone, left = [*gone, *left[:size]], left[size:]
        went += [number] * size
    cost = runs / len(scorer.checkpoint.shape.all_heads)
    return HeadPath(tuple(gone), tuple(went), effects, cost)


def single_losses(
    scorer: Scorer,
    pairs: Sequence[Pair],
    *,
    mask: MaskOf,
    among: Sequence[Head] | None = None,
    skipped: Sequence[int] = (),
    work: Path | None = None,
    shown: Progress = silent,
) -> Losses:
    """The losses with each head alone left out: the first round of every choice on these pairs."""
    variants = [
        _without([head], skipped, mask, str(head)) for head in _pool(scorer, among, skipped)
    ]
    if skipped:
        variants.append(_without([], skipped, mask, _GONE))
    return losses(scorer, pairs, variants, work=work, name="heads-0", shown=shown)


def _check(out: int, pool: int, rounds: int, wide: float | None) -> None:
    if not 1 <= out <= pool or rounds < 1:
        raise ArgumentError(f"{out} heads in {rounds} rounds: 1 to {pool} heads can go")
    if wide is not None and not wide >= 1:
        raise ArgumentError(f"{wide} times the heads to go cannot be measured anew: 1 or more")


def _by_loss(heads: Sequence[Head], measured: Losses) -> list[Head]:
    """The least loss first; of equals the lower head."""
    return sorted(heads, key=lambda head: (measured.mean(str(head)), head))


def _pool(scorer: Scorer, among: Sequence[Head] | None, skipped: Sequence[int]) -> list[Head]:
    shape = scorer.checkpoint.shape
    if among is None:
        return [head for head in shape.all_heads if head.layer not in skipped]
    pool = sorted(set(checked_heads(among, shape)))
    strange = [head for head in pool if head.layer in skipped]
    if strange:
        raise ArgumentError(f"head {strange[0]} is gone already: its layer is left out whole")
    return pool


def _sizes(out: int, rounds: int) -> list[int]:
    """How many heads each round takes out: as equal as can be, the larger ones first."""
    sizes = [out // rounds + (number < out % rounds) for number in range(rounds)]
    return [size for size in sizes if size]


def _without(heads: Sequence[Head], skipped: Sequence[int], mask: MaskOf, name: str) -> Variant:
    return Variant(name, parts_of(heads, skipped, mask), "plan")
