"""The study of losses on tiny models: every run, the table, and what goes on."""

import json

import pytest

from experiments.losses.run import main


def test_every_loss_is_judged_and_held_against_the_first(
    checkpoint_of, pair_file, tmp_path, capsys
):
    out = tmp_path / "losses"
    options = ["--out", out, "--loss", "nll", "--loss", "nll,margin=0.5", "--seeds", 2]
    options += ["--steps", 2, "--base", checkpoint_of(), "--max-length", 48, "--no-compile"]
    options += [part for name in ("train", "dev", "test") for part in (f"--{name}", pair_file)]
    main(list(map(str, options)))
    lines = capsys.readouterr().out.splitlines()
    stored = json.loads((out / "losses.json").read_text("utf-8"))
    runs = [(loss, seed) for seed in (0, 1) for loss in ("nll", "nll,margin=0.5")]
    assert [(run["loss"], run["seed"]) for run in stored["runs"]] == runs
    assert {run["steps"] for run in stored["runs"]} == {2}
    assert {row["rival"] for row in stored["differences"]} == {"nll,margin=0.5"}
    rho = [run["metrics"]["spearman"] for run in stored["runs"]]
    by_metric = {row["metric"]: row["difference"] for row in stored["differences"]}
    assert by_metric["spearman"] == pytest.approx((rho[1] + rho[3] - rho[0] - rho[2]) / 2)
    assert any(f"{(rho[0] + rho[2]) / 2:.3f}" in line for line in lines)
    before = (out / "nll-0" / "model.safetensors").stat().st_mtime_ns
    main(list(map(str, options)))
    assert (out / "nll-0" / "model.safetensors").stat().st_mtime_ns == before
    with pytest.raises(SystemExit):
        main([*map(str, options), "--loss", "hinge"])
    assert "--loss 'hinge'" in capsys.readouterr().err
