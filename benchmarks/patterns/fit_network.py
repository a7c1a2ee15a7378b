"""Training the small network on labelled maps, with maps that are turned, sharpened and mixed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch.nn import functional as F

from qt_bert.evaluation.arrays import FloatArray, IntArray
from qt_bert.probes.map_patterns.kinds import KINDS, QUERY, SEP, TITLE
from qt_bert.probes.map_patterns.maps import Maps
from qt_bert.probes.map_patterns.network import Network, channels
from qt_bert.probes.map_patterns.stored import DrawnMap

EPOCHS, BATCH, RATE, DECAY, DROPOUT, SMOOTHING = 120, 32, 2e-3, 5e-2, 0.3, 0.05
MIXED = 0.04
"""The share of a batch that is mixed of a vertical and a diagonal map: hardly any is drawn."""


def fit_network(
    maps: Sequence[DrawnMap], labels: IntArray, seed: int, epochs: int = EPOCHS
) -> Network:
    """A network trained on `maps`; the same seed gives the same one on the same machine."""
    rng = np.random.default_rng(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = Network(dropout=DROPOUT).train()
        steps = epochs * -(-len(maps) // BATCH)
        optimizer = torch.optim.AdamW(network.parameters(), lr=RATE, weight_decay=DECAY)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=steps)
        weight = torch.from_numpy(_weights(labels)).float()
        for _ in range(epochs):
            for rows in np.array_split(rng.permutation(len(maps)), steps // epochs):
                shown, kinds = _batch([maps[row] for row in rows], labels[rows], rng)
                logits = network(channels(Maps.of_drawn(shown)))
                target = torch.from_numpy(kinds)
                loss = F.cross_entropy(logits, target, weight, label_smoothing=SMOOTHING)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                schedule.step()
    return network.eval()


def _weights(labels: IntArray) -> FloatArray:
    """The root of how rare each kind is; that of mixtures, which hardly occurs, counts as it is."""
    counts = np.bincount(labels, minlength=len(KINDS)).astype(np.float64)
    weights = np.sqrt(counts.sum() / (len(KINDS) * counts.clip(1)))
    weights[KINDS.index("both")] = 1.0
    return np.asarray(weights)


def _batch(
    maps: Sequence[DrawnMap], labels: IntArray, rng: np.random.Generator
) -> tuple[list[DrawnMap], IntArray]:
    shown = [_changed(one, rng) for one in maps]
    kinds = labels.copy()
    of = {kind: np.flatnonzero(labels == KINDS.index(kind)) for kind in ("vertical", "diagonal")}
    if all(len(rows) for rows in of.values()):
        for _ in range(rng.binomial(len(maps), MIXED)):
            vertical, diagonal = (maps[rng.choice(rows)] for rows in of.values())
            shown.append(_changed(_mixed(vertical, diagonal, rng), rng))
            kinds = np.append(kinds, KINDS.index("both"))
    return shown, kinds


def _changed(one: DrawnMap, rng: np.random.Generator) -> DrawnMap:
    """A map that any eye would give the same label: tokens left out, turned round, sharper or not."""
    keep = rng.random(len(one.kinds)) > rng.choice([0.0, 0.0, 0.1])
    keep |= one.kinds == SEP
    keep[0] = True
    weights, kinds = one.weights[np.ix_(keep, keep)], one.kinds[keep]
    weights = weights ** rng.uniform(0.9, 1.1)
    weights = weights / weights.sum(1, keepdims=True).clip(1e-9)
    if rng.random() < 0.5:
        weights, kinds = weights[::-1, ::-1], _turned(kinds)
    return replace(one, weights=weights, kinds=kinds)


def _turned(kinds: np.ndarray) -> np.ndarray:
    """Kinds of tokens for a map turned by half a circle: the segments change places."""
    first = int(np.flatnonzero(kinds == SEP)[0]) + 1
    parts = [np.full(size, text) for size, text in ((len(kinds) - first, QUERY), (first, TITLE))]
    for part in parts:
        part[-1] = SEP
    return np.concatenate(parts)


def _mixed(vertical: DrawnMap, diagonal: DrawnMap, rng: np.random.Generator) -> DrawnMap:
    """Both at once, on as many tokens as the shorter one has."""
    size = min(len(vertical.kinds), len(diagonal.kinds))
    # Of the vertical map the tokens stay that are looked at: its stripes are not to be cut off.
    seen = np.sort(np.argsort(-vertical.weights.sum(0), kind="stable")[:size])
    parts = (vertical.weights[np.ix_(seen, seen)], diagonal.weights[:size, :size])
    one, other = (part / part.sum(1, keepdims=True).clip(1e-9) for part in parts)
    share = rng.uniform(0.35, 0.65)
    shorter = min(vertical, diagonal, key=lambda drawn: len(drawn.kinds))
    return replace(shorter, weights=share * one + (1 - share) * other)
