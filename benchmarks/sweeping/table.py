"""What was measured beside what was aimed at."""

from __future__ import annotations

from sweeping.measure import BFLOAT16, OURS, PLAIN, Measured

HEAD = ("what", "model", "aim", "measured")
TIMES = {"shipped": (5.0, 2.5), "BERT-base": (4.5, 2.2)}
"""Aims against the plain loops in file order and by length."""
Row = tuple[str, str, str, bool]
"""What, the aim, the figure, and whether it reaches the aim (or there is none)."""

TIMES_BFLOAT16, DIFFERENCE, MEMORY, SHARE = 3.0, 1e-5, 500.0, 0.60


def rows(label: str, found: Measured) -> list[tuple[str, ...]]:
    """The rows of one model; its label is `shipped` or `BERT-base`. Some aims are the latter's."""
    big = label == "BERT-base"
    return [
        (what, label, aim, shown if reached else f"{shown}, not reached")
        for what, aim, shown, reached in (
            _against_plain(TIMES[label], found),
            _bfloat16(TIMES_BFLOAT16 if big else None, found),
            _difference(found),
            _memory(found),
            _share(SHARE if big else None, found),
        )
    ]


def _against_plain(aims: tuple[float, float], found: Measured) -> Row:
    ratios = [found.times_faster(name) for name in PLAIN]
    return (
        "times faster than the plain loop, in file order / by length",
        " / ".join(f"{aim:g}×" for aim in aims),
        " / ".join(f"{ratio:.2f}×" for ratio in ratios),
        all(ratio >= aim for ratio, aim in zip(ratios, aims, strict=True)),
    )


def _bfloat16(aim: float | None, found: Measured) -> Row:
    ratio = found.times_faster(BFLOAT16)
    what = "our bfloat16, times faster than our float32 (flipped grades)"
    asked = "–" if aim is None else f"{aim:g}×"
    return what, asked, f"{ratio:.2f}× ({found.flipped:.2%})", aim is None or ratio >= aim


def _difference(found: Measured) -> Row:
    gap = found.difference["file order"]
    what = "largest logit difference to the plain loop"
    return what, f"{DIFFERENCE:.0e}", f"{gap:.1e}", gap <= DIFFERENCE


def _memory(found: Measured) -> Row:
    shown = f"{found.memory:+.0f} MB ({found.memory_ours:,.0f} in all)"
    what = "peak memory over the plain forward's"
    return what, f"+ {MEMORY:.0f} MB", shown, found.memory <= MEMORY


def _share(aim: float | None, found: Measured) -> Row:
    share = found.share_of_peak
    asked = "–" if aim is None else f"{aim:.0%}"
    what = "share of the machine's matrix peak"
    return what, asked, f"{share:.0%}", aim is None or share >= aim


def conditions(label: str, found: Measured) -> str:
    """One sentence on what was run for a model."""
    return (
        f"{label} ({found.layers} × {found.heads} × {found.hidden}): {found.pairs:,} pairs of "
        f"{found.mean_tokens:.1f} tokens on average, {found.longest} at most; all "
        f"{found.layers * found.heads} single heads in {found.seconds[OURS]:.1f} s "
        f"(median of {found.rounds}); the plain loops timed on {found.masks_timed} masks, one a "
        f"layer, between the two halves of ours, and scaled up to all heads; "
        f"{found.flops / 1e12:.3g} TFLOP in matrix products, the machine's fastest product at "
        f"{found.peak / 1e9:.0f} GFLOP/s."
    )
