"""`benchmarks/title_states.py` on tiny models."""

from importlib import import_module

import pytest

from qt_bert.files import read_json

FEW = ["--queries", "3", "--titles", "4", "--rounds", "2"]


@pytest.mark.parametrize("offline", [True, False])
def test_every_format_stands_beside_the_whole_model(
    checkpoint_of, offline_checkpoint_of, pair_file, tmp_path, capsys, offline
):
    model = offline_checkpoint_of("bert") if offline else checkpoint_of("bert")
    out = tmp_path / "out.json"
    given = [str(pair_file), "--model", str(model), *FEW, "--json", str(out)]
    import_module("title_states").main(given)
    whole, *read = read_json(out)["states"].items()
    assert whole[1]["faster"]["value"] == 1 and whole[1]["largest"] == 0
    assert [name for name, _ in read] == ["float32", "float16", "int8"]
    assert read[0][1]["largest"] < 1e-5 < read[1][1]["largest"] < read[2][1]["largest"]
    assert read[0][1]["size"] > read[1][1]["size"] > read[2][1]["size"] > 0
    printed = capsys.readouterr().out
    assert "1 of 2 layers offline" in printed and "3 queries of 4 titles each" in printed


def test_an_inputs_fault_is_one_line(offline_checkpoint_of, checkpoint_of, pair_file, capsys):
    offline, plain = str(offline_checkpoint_of("bert", start=3)), str(checkpoint_of("bert"))
    for arguments, word in (
        (["--model", plain, "--titles", "9"], "have 8 different titles"),
        (["--model", plain, "--offline-layers", "2"], "leave no layer"),
        (["--model", offline, "--offline-layers", "2"], "1 offline layers already"),
        (["--model", offline, "--titles", "2"], "no query ends before position 3"),
        (["--limit", "0"], "--limit: 0 is below 1"),
    ):
        with pytest.raises(SystemExit) as ended:
            import_module("title_states").main([str(pair_file), *arguments])
        assert ended.value.code == 2 and word in capsys.readouterr().err
