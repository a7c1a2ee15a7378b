"""`arms.json`: written and read back."""

from __future__ import annotations

import pytest

from qt_bert.errors import RunFolderError
from qt_bert.results.kept import KeptLayer, TeacherRef
from qt_bert.results.plan import Arm, ArmDifference, ArmRun, ArmsFile, layer_map
from qt_bert.results.probe import PairsRef
from qt_bert.text import Text

KEPT = (KeptLayer(layer=0, heads=(0, 1)), KeptLayer(layer=2, heads=(), units=8))
FILE = ArmsFile(
    teacher=TeacherRef(name="t", sha256="ab", layers=3, heads=2, units=16),
    steps=10,
    pairs={"dev": PairsRef(name="dev.tsv", sha256="cd")},
    teacher_metrics={"dev": {"qwk": 0.7, "spearman": None}},
    arms=(
        Arm(
            name="plan",
            what=Text("方案", "the plan"),
            kept=KEPT,
            layer_map=layer_map(KEPT, 3),
            parameters=99,
        ),
    ),
    runs=(ArmRun(arm="plan", seed=0, best_step=10, metrics={"dev": {"qwk": 0.6}}),),
    differences=(
        ArmDifference(
            rival="even",
            on="dev",
            metric="qwk",
            seeds=5,
            plan_value=0.6,
            rival_value=0.5,
            difference=0.1,
            ci_low=0.05,
            ci_high=None,
            outcome="better",
        ),
    ),
    summary=Text("好", "good"),
)


def test_what_is_written_is_read(tmp_path):
    FILE.write(tmp_path / "arms.json")
    assert ArmsFile.read(tmp_path / "arms.json") == FILE


def test_a_file_that_is_none_is_named(tmp_path):
    (tmp_path / "arms.json").write_text('{"kind": "plan"}')
    with pytest.raises(RunFolderError, match="arms.json"):
        ArmsFile.read(tmp_path / "arms.json")
