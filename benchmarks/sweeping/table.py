"""The table of results and aims."""

from __future__ import annotations

from sweeping.measure import BFLOAT16, OURS, PLAIN, Measured

HEAD = ("what", "model", "aim", "measured")
TIMES = {"shipped": (5.0, 2.5), "BERT-base": (4.5, 2.2)}
"""Aims against the plain loops in file order and by length."""
Row = tuple[str, str, str, bool]
"""What, the aim, the result, and whether it reaches the aim (or there is none)."""

TIMES_BFLOAT16, DIFFERENCE, MEMORY, SHARE = 3.0, 1e-5, 500.0, 0.60


def rows(label: str, result: Measured) -> list[tuple[str, ...]]:
    """The rows of a model, `shipped` or `BERT-base`; some aims are only for the latter."""
    big = label == "BERT-base"
    return [
        (what, label, aim, shown if reached else f"{shown}, not reached")
        for what, aim, shown, reached in (
            _against_plain(TIMES[label], result),
            _bfloat16(TIMES_BFLOAT16 if big else None, result),
            _difference(result),
            _memory(result),
            _share(SHARE if big else None, result),
        )
    ]


def _against_plain(aims: tuple[float, float], result: Measured) -> Row:
    ratios = [result.times_faster(name) for name in PLAIN]
    return (
        "times faster than the plain loop, in file order / by length",
        " / ".join(f"{aim:g}×" for aim in aims),
        " / ".join(f"{ratio:.2f}×" for ratio in ratios),
        all(ratio >= aim for ratio, aim in zip(ratios, aims, strict=True)),
    )


def _bfloat16(aim: float | None, result: Measured) -> Row:
    ratio = result.times_faster(BFLOAT16)
    what = "our bfloat16, times faster than our float32 (flipped grades)"
    shown = "–" if aim is None else f"{aim:g}×"
    return what, shown, f"{ratio:.2f}× ({result.flipped:.2%})", aim is None or ratio >= aim


def _difference(result: Measured) -> Row:
    gap = result.difference["file order"]
    what = "largest logit difference to the plain loop"
    return what, f"{DIFFERENCE:.0e}", f"{gap:.1e}", gap <= DIFFERENCE


def _memory(result: Measured) -> Row:
    shown = f"{result.memory:+.0f} MB ({result.memory_ours:,.0f} in all)"
    what = "peak memory over the plain forward's"
    return what, f"+ {MEMORY:.0f} MB", shown, result.memory <= MEMORY


def _share(aim: float | None, result: Measured) -> Row:
    share = result.share_of_peak
    shown = "–" if aim is None else f"{aim:.0%}"
    what = "share of the machine's matrix peak"
    return what, shown, f"{share:.0%}", aim is None or share >= aim


def conditions(label: str, result: Measured) -> str:
    """A sentence on a model's run."""
    return (
        f"{label} ({result.layers} × {result.heads} × {result.hidden}): {result.pairs:,} pairs of "
        f"{result.mean_tokens:.1f} tokens on average, {result.longest} at most; all "
        f"{result.layers * result.heads} single heads in {result.seconds[OURS]:.1f} s "
        f"(median of {result.rounds}); the plain loops timed on {result.masks_timed} masks, one a "
        f"layer, between the two halves of ours, and scaled up to all heads; "
        f"{result.flops / 1e12:.3g} TFLOP in matrix products, the machine's fastest product at "
        f"{result.peak / 1e9:.0f} GFLOP/s."
    )
