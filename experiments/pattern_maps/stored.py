"""Maps as they are stored: `maps.csv` lists their sources, `maps.safetensors` holds the weights."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from qt_bert.errors import ArgumentError
from qt_bert.files import atomic_write
from qt_bert.heads import Head
from qt_bert.models.batches import PADDING
from qt_bert.models.batches import QUERY as QUERY_SIDE
from qt_bert.models.batches import TITLE as TITLE_SIDE
from qt_bert.probes.pattern_maps import Maps
from qt_bert.stats.arrays import FloatArray

TABLE, CELLS = "maps.csv", "maps.safetensors"
COLUMNS = ("id", "model", "layer", "head", "pair", "tokens", "teacher")
CLS, SEP, QUERY, TITLE = 0, 1, 2, 3
"""Kinds of tokens, as maps are stored with them."""


@dataclass(frozen=True, eq=False)
class DrawnMap:
    """One head's attention on one pair, `weights` [tokens, tokens], rows looking; `kinds` [tokens].

    The source is `model`, `layer`, `head` and the pair's id; `id` does not show it. `teacher` is, in a
    smaller model, the head of the teacher that this one started as.
    """

    id: str
    model: str
    layer: int
    head: int
    pair: str
    weights: FloatArray
    kinds: np.ndarray
    teacher: Head | None = None


def maps_of(drawn: Sequence[DrawnMap]) -> Maps:
    """Stored maps, padded to the longest; the title's segment begins behind the first separator."""
    length = max(len(one.kinds) for one in drawn)
    weights = np.zeros((len(drawn), length, length), np.float32)
    segment = np.full((len(drawn), length), PADDING, np.int64)
    for row, one in enumerate(drawn):
        size, separator = len(one.kinds), int(np.flatnonzero(one.kinds == SEP)[0])
        weights[row, :size, :size] = one.weights
        segment[row, :size] = TITLE_SIDE
        segment[row, : separator + 1] = QUERY_SIDE
    return Maps(torch.from_numpy(weights), torch.from_numpy(segment))


def kinds_of(side: Sequence[int], separators: Sequence[int], cls: int) -> np.ndarray:
    """The kinds of a pair's tokens [tokens] (uint8), from the tokenizer's places."""
    kinds = np.array([QUERY if one == 0 else TITLE for one in side], np.uint8)
    kinds[list(separators)], kinds[cls] = SEP, CLS
    return kinds


def save_maps(folder: Path, maps: Sequence[DrawnMap], drawn_from: dict[str, str]) -> None:
    """Write both files; weights as float16. `drawn_from` (hashes, seed) goes into the metadata."""
    folder.mkdir(parents=True, exist_ok=True)
    with atomic_write(folder / TABLE) as path, path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for one in maps:
            place = [one.id, one.model, one.layer, one.head, one.pair]
            writer.writerow([*place, len(one.kinds), one.teacher or ""])
    tensors = {
        "cells": np.concatenate([one.weights.astype(np.float16).ravel() for one in maps]),
        "kinds": np.concatenate([one.kinds for one in maps]),
    }
    with atomic_write(folder / CELLS) as path:
        save_file(tensors, path, metadata=drawn_from)
        path.chmod(0o644)


def read_maps(folder: Path) -> list[DrawnMap]:
    """The maps that `save_maps` left in `folder`.

    Raises ArgumentError where a file is missing, or the two do not fit each other.
    """
    try:
        with (folder / TABLE).open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        with safe_open(folder / CELLS, framework="numpy") as tensors:
            cells, kinds = tensors.get_tensor("cells"), tensors.get_tensor("kinds")
        lengths = np.array([int(row["tokens"]) for row in rows], int)
        teachers = [Head.parse(row["teacher"]) if row["teacher"] else None for row in rows]
    except (OSError, SafetensorError, KeyError, ValueError) as error:
        raise ArgumentError(f"{folder}: no drawn maps in it ({error})") from error
    if len(cells) != (lengths**2).sum() or len(kinds) != lengths.sum():
        raise ArgumentError(f"{folder}: {TABLE} and {CELLS} are not of the same maps; draw anew")
    squares = np.split(cells.astype(np.float64), np.cumsum(lengths**2)[:-1])
    tokens = np.split(kinds, np.cumsum(lengths)[:-1])
    return [
        DrawnMap(
            row["id"],
            row["model"],
            int(row["layer"]),
            int(row["head"]),
            row["pair"],
            square.reshape(length, length),
            kind,
            teacher,
        )
        for row, length, square, kind, teacher in zip(
            rows, lengths, squares, tokens, teachers, strict=True
        )
    ]
