"""A report on a model that lost heads, a whole layer's among them: every probe runs on what is there."""

import json
import sys

import pytest

from qt_bert.models.checkpoint import smaller_checkpoint
from qt_bert.models.opening import open_checkpoint
from qt_bert.planning.prune import save_smaller
from qt_bert.probes.base import probes
from qt_bert.results.kept import KeptLayer
from tests.conftest import write_pairs
from tests.probes.planted_matching import pairs_of
from tests.probes.scored import NOT_OF_HEADS

ON_ANY_TEXTS = {"redundancy", "boundary", "order", "matching", "focus", "patterns", "features"}
"""Probes that find what they look for in any texts."""


def test_every_probe_knows_the_heads_that_are_there(checkpoint_of, tmp_path, monkeypatch):
    from qt_bert.cli import main

    teacher = open_checkpoint(checkpoint_of("bert", layers=5, heads=4, hidden=32))
    bare = 3  # the last layer that is kept: what is asked of it has no answer
    kept = tuple(
        KeptLayer(layer=place + 1, heads=() if place == bare else (1, 3)) for place in range(4)
    )
    folder = save_smaller(tmp_path / "small", smaller_checkpoint(teacher, kept))
    pairs = write_pairs(tmp_path / "pairs.tsv", pairs_of(30))
    names = [probe.name for probe in probes() if not probe.needs_base]
    asked = ["report", "--model", folder, "--pairs", pairs, "--out", tmp_path / "run"]
    asked += ["--only", ",".join(names)]
    monkeypatch.setattr(sys, "argv", ["qt-bert", *map(str, asked)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    heads = {f"L{n}H{h}": f"L{n + 1}H{h}" for n in range(4) for h in (1, 3) if n != bare}
    found = {
        path.stem: json.loads(path.read_text(encoding="utf-8"))
        for path in (tmp_path / "run" / "probes").glob("*.json")
    }
    assert NOT_OF_HEADS < set(found) == set(names)
    for probe, result in found.items():
        scored = {one["head"]: one["teacher"] for one in result["heads"]}
        # Others score heads where the texts have what they look for, and the weights show it.
        assert scored == heads or (probe not in ON_ANY_TEXTS and not scored), probe
        assert {head for heads in result["sets"].values() for head in heads} <= set(heads), probe
