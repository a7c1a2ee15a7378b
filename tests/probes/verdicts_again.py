"""Every verdict of a stored run computed again, by numpy alone: python verdicts_again.py RUN [CLAIM ...]

Written from docs/claims.md and docs/formats.md, without a line of qt_bert.
"""

import json
import math
import sys
from pathlib import Path

import numpy as np

ALPHA, LEAST_QUERIES, LEAST_SETS, END_AT = 0.05, 40, 19, 10


def bootstrap_t(values, resamples, seed):
    """Ends of the 95 % interval of a mean: the wider of equal-tailed and symmetric bootstrap-t, and 5/n more."""
    n, mean = len(values), values.mean()
    error = values.std(ddof=1) / math.sqrt(n)
    drawn = values[np.random.default_rng(seed).integers(n, size=(resamples, n))]
    errors = np.maximum(drawn.std(axis=1, ddof=1) / math.sqrt(n), 0.2 * error)
    t = (drawn.mean(axis=1) - mean) / errors
    low, high = np.quantile(t, [0.025, 0.975])
    both = np.quantile(np.abs(t), 0.95)
    error *= 1 + 5 / n
    return mean - max(high, both) * error, mean + max(-low, both) * error


def student(df):
    """The 97.5 % quantile of Student's t, by integrating its density."""
    x = np.linspace(0, 60, 600_001)
    density = (1 + x**2 / df) ** (-(df + 1) / 2)
    area = np.concatenate([[0], np.cumsum((density[1:] + density[:-1]) / 2)])
    return float(np.interp(0.95, area / area[-1], x))


def share_low(hits, sets):
    """The low end of Clopper and Pearson's interval: where at least `hits` of `sets` have 2.5 %."""
    if not hits:
        return 0.0
    low, high = 0.0, 1.0
    for _ in range(60):
        p = (low + high) / 2
        tail = sum(math.comb(sets, k) * p**k * (1 - p) ** (sets - k) for k in range(hits, sets + 1))
        low, high = (p, high) if tail < 0.025 else (low, p)
    return low


def flip_p(values, margin, seed):
    """Two-sided sign-flip p of the mean against the margin, 9,999 flips."""
    moved = values - margin
    signs = np.random.default_rng(seed + 1).choice([-1.0, 1.0], size=(9_999, len(moved)))
    slack = 1e-10 * np.abs(moved).sum()
    return (1 + (np.abs(signs @ moved) >= abs(moved.sum()) - slack).sum()) / 10_000


def verdict_of(claim, stored, resamples, seed):
    """The verdict of one claim from its stored values."""
    target = np.array(stored["target"], float)
    sets = np.array(stored["sets"], float).reshape(len(stored["sets"]), len(target))
    values, edge, reach = target, claim["margin"], stored["reach"]
    if len(sets):
        values = target - sets.mean(axis=0)
        drawn = not stored["enumerated"] and len(sets) > 1
        means = sets.mean(axis=1)
        if drawn:
            reach = student(len(sets) - 1) * means.std(ddof=1) / math.sqrt(len(sets))
    if stored["whole"] is not None:
        values, edge = values - claim["margin"] * np.array(stored["whole"], float), 0.0
    if claim["side"] == "below":
        values, target, sets, edge = -values, -target, -sets, -edge
    if len(values) < LEAST_QUERIES or not np.isfinite(values).all():
        return "not testable"
    if values.std() <= 1e-6 * np.abs(values).max():
        return "not testable"
    low, high = bootstrap_t(values, resamples, seed)
    middle, half = values.mean(), (high - low) / 2
    low = middle - math.hypot(middle - low, reach)
    high = middle + math.hypot(high - middle, reach)
    nearer = edge + (middle - edge) * half / math.hypot(half, reach)
    p = flip_p(values + nearer - middle, edge, seed)
    if not len(sets):
        if low > edge and p < ALPHA:
            return "reproduced"
        return "not reproduced" if high < edge and p < ALPHA else "inconclusive"
    hits = np.flatnonzero(sets.mean(axis=1) >= target.mean() - 1e-6 * abs(target.mean()))
    ended = not stored["enumerated"] and len(hits) >= END_AT
    counted = hits[END_AT - 1] + 1 if ended else len(sets)
    if len(sets) < LEAST_SETS and not ended:
        return "not testable"
    rank = END_AT / counted if ended else (1 + len(hits)) / (1 + len(sets))
    if low > edge and rank <= ALPHA:
        return "reproduced"
    rows = np.random.default_rng(seed).integers(len(target), size=(resamples, len(target)))
    ahead = (sets[:counted] - target)[:, rows].mean(axis=2)
    reached = int(np.quantile((ahead >= -1e-9).sum(axis=0), 0.01, method="lower"))
    common = share_low(reached, int(counted)) > ALPHA
    return "not reproduced" if (high < edge and p < ALPHA) or common else "inconclusive"


def of_result(result):
    """(id, stored verdict, verdict computed again) of every claim of a result that has values."""
    if "evidence" in result:  # plan.json
        result = result["evidence"]
        claim = result["claim"]
        result["claims"] = [claim] if claim else []
        result["values"] = {claim["id"]: result["values"]} if claim and result["values"] else {}
    how = result["settings"]["resamples"], result["settings"]["seed"]
    for claim in result["claims"]:
        if stored := result["values"].get(claim["id"]):
            yield claim["id"], claim["verdict"], verdict_of(claim, stored, *how)


if __name__ == "__main__":
    for path in sorted(Path(sys.argv[1]).glob("p*/*.json")):
        for row in of_result(json.loads(path.read_text(encoding="utf-8"))):
            print(*row, sep="\t")
