"""A probe's context around a model folder and made pairs."""

from collections.abc import Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

from qt_bert.data.pairs import Pair
from qt_bert.models.opening import open_checkpoint
from qt_bert.probes.base import Context, Split, read_split
from qt_bert.request import Request
from qt_bert.scoring.bulk import Scorer


def context_of(
    probe: str,
    model: Path,
    tmp_path: Path,
    halves: tuple[Sequence[Pair], Sequence[Pair]] | None = None,
    **changes: Any,
) -> Context:
    """Discovery and validation are `halves`; without them those of the file `pairs`.

    Any other field of the context and of its request by keyword.
    """
    if halves is not None:
        path = tmp_path / "halves.tsv"
        path.write_text("query\ttitle\tgrade\n", encoding="utf-8")
        split = Split(list(halves[0]), list(halves[1]), 0)
        changes = {"pairs": path, "read_pairs": lambda labels: split, **changes}
    facts: dict[str, Any] = {
        "label": probe,
        "work": tmp_path / "sweeps",
        "open_model": lambda: Scorer(open_checkpoint(model)),
        "resamples": 200,
    } | changes
    named = {one.name for one in fields(Request)} & facts.keys()
    request = Request(**{name: facts.pop(name) for name in named})
    defaults = {"read_pairs": partial(read_split, request), "result_of": {}.__getitem__}
    return Context(request=request, **(defaults | facts))
