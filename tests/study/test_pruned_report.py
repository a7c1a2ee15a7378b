"""A report on a model that lost heads, a whole layer's among them: every probe runs on what is there."""

from __future__ import annotations

import json
import sys

import pytest

from qt_bert.encoder import open_checkpoint
from qt_bert.encoder.checkpoint import smaller_checkpoint
from qt_bert.planning.saving import save_smaller
from qt_bert.results.kept import KeptLayer


@pytest.mark.parametrize("bare", [1, 2])
def test_every_probe_knows_the_heads_that_are_there(
    checkpoint_of, pair_file, tmp_path, monkeypatch, bare
):
    from qt_bert.cli import main

    teacher = open_checkpoint(checkpoint_of("bert", layers=5, heads=4, hidden=32))
    kept = tuple(
        KeptLayer(layer=place + 1, heads=() if place == bare else (1, 3)) for place in range(4)
    )
    folder = save_smaller(tmp_path / "small", smaller_checkpoint(teacher, kept))
    asked = ["report", "--model", folder, "--pairs", pair_file, "--out", tmp_path / "run"]
    monkeypatch.setattr(sys, "argv", ["qt-bert", *map(str, asked)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    names = {f"L{n}H{h}": f"L{n + 1}H{h}" for n in range(4) for h in (1, 3) if n != bare}
    found = sorted((tmp_path / "run" / "probes").glob("*.json"))
    assert len(found) == 5
    for path in found:
        result = json.loads(path.read_text(encoding="utf-8"))
        assert {one["head"]: one["teacher"] for one in result["heads"]} == names, path.name
        assert {head for heads in result["sets"].values() for head in heads} <= set(names)
