"""`benchmarks/smaller.py` on tiny models."""

from importlib import import_module

import pytest

from qt_bert.files import read_json
from qt_bert.models.opening import open_checkpoint
from qt_bert.planning import export
from qt_bert.planning.export_session import MODEL
from tests.conftest import write_pairs


def test_folders_and_files_stand_beside_the_teacher(
    checkpoint_of, pair_file, tmp_path, capsys, monkeypatch
):
    teacher, small = checkpoint_of("bert"), checkpoint_of("bert", layers=1)
    monkeypatch.setattr(export, "_in_a_new_process", lambda _path, stored: [1e-6] * 14)
    export.export_onnx(open_checkpoint(small), tmp_path / "onnx")
    models = [small, tmp_path / "onnx", tmp_path / "onnx" / MODEL]
    options = ["--teacher", teacher, "--alone", 6, "--rounds", 5, "--json", tmp_path / "out.json"]
    import_module("smaller").main([str(word) for word in [pair_file, *models, *options]])
    result = read_json(tmp_path / "out.json")["models"]
    assert list(result) == [f"teacher {teacher.name}", *map(str, models)]
    first, *others = result.values()
    assert first["latency"] == {"value": 1.0, "low": 1.0, "high": 1.0} == first["throughput"]
    for one in others:
        assert one["milliseconds"] > 0 and one["rate"] > 0
        assert one["latency"]["low"] <= one["latency"]["value"] <= one["latency"]["high"]
    printed = capsys.readouterr().out
    assert "throughput" in printed and "8 of pairs.tsv" in printed


def test_an_inputs_fault_is_one_line(checkpoint_of, pair_file, tmp_path, capsys):
    teacher = ["--teacher", str(checkpoint_of("bert"))]
    empty = write_pairs(tmp_path / "empty.tsv", [])
    for arguments, word in (
        ([str(pair_file), str(tmp_path / "gone")], "no such folder"),
        ([str(pair_file), str(tmp_path / "gone.onnx")], "no ONNX model"),
        ([str(pair_file), "--limit", "0"], "--limit: '0' is no whole number"),
        ([str(pair_file), "--rounds", "0"], "--rounds: '0' is no whole number"),
        ([str(empty)], "has no rows"),
    ):
        with pytest.raises(SystemExit, match="2"):
            import_module("smaller").main([*arguments, *teacher])
        assert word in capsys.readouterr().err
