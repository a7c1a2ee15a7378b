"""`benchmarks/sweep.py` on tiny models, and the parts it stands on."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
import torch

from qt_bert.files import read_json
from qt_bert.models.opening import open_checkpoint
from qt_bert.scoring.bulk import Scorer

TEXTS = [("狗追猫" * (1 + i % 3), "猫追狗" * (1 + i % 4)) for i in range(40)]
PAGE = "before\n<!-- sweep: begin -->\nold\n<!-- sweep: end -->\nafter\n"


@pytest.fixture(autouse=True)
def _one_thread(monkeypatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@pytest.fixture
def parts() -> Callable[[str], ModuleType]:
    return import_module


def ours_of(folder: Path, parts: Callable[[str], ModuleType]) -> object:
    scorer = Scorer(open_checkpoint(folder))
    encoded = scorer.tokenizer.encode(TEXTS, offsets=False)
    return parts("sweeping.ours").OurSweep(scorer, encoded)


def in_this_process(work: Callable[..., None], *arguments: object) -> float:
    work(*arguments)
    return 100.0


def test_prints_stores_and_writes_the_table(
    checkpoint_of, pair_file, tmp_path, parts, monkeypatch, capsys
):
    monkeypatch.setattr(parts("common.machine"), "SIZES", (64,))
    monkeypatch.setattr(parts("sweeping.measure"), "peak_memory", in_this_process)
    page, out = tmp_path / "README.md", tmp_path / "found.json"
    page.write_text(PAGE)
    options = {
        "--pairs": pair_file,
        "--model": checkpoint_of(layers=3, heads=4),
        "--big": checkpoint_of("xlm-roberta"),
        "--max-length": 40,
        "--rounds": 2,
        "--readme": page,
        "--json": out,
    }
    parts("sweep").main([str(word) for option in options.items() for word in option])
    result = read_json(out)["models"]
    assert [(one["layers"], one["heads"], one["masks_timed"]) for one in result.values()] == [
        (3, 4, 3),
        (2, 2, 2),
    ]
    for one in result.values():
        assert one["pairs"] == 8 and one["flops"] > 0
        assert all(0 < gap < 1e-4 for gap in one["difference"].values())
        assert set(one["times_faster"]) == {"file order", "by length", "ours in bfloat16"}
    written, printed = page.read_text(), capsys.readouterr().out
    assert written.startswith("before\n") and written.endswith("\nafter\n")
    assert "| what | model | aim | measured |" in written and "old" not in written
    assert "share of the machine's matrix peak" in printed


def test_flops_of_three_lengths_tell_those_of_all(checkpoint_of, parts):
    flops = parts("common.flops")
    ours = ours_of(checkpoint_of(layers=3, heads=4), parts)
    assert len(ours.batches) > 1
    with flops.flop_counter() as counter:
        ours.run(ours.batches)
    assert flops.matrix_flops(ours.swept, ours.batches) == counter.get_total_flops()


def test_the_plain_loop_leaves_out_the_heads_it_says(checkpoint_of, parts):
    folder = checkpoint_of("electra", layers=3, heads=4)
    plain, ours = parts("sweeping.plain"), ours_of(folder, parts)
    ours.run(ours.batches)
    checkpoint = open_checkpoint(folder, attention="sdpa")
    encoded = checkpoint.pair_tokenizer().encode(TEXTS)
    masks = ours.one_a_layer()
    assert [str(head) for head in masks] == ["L0H0", "L1H1", "L2H2"]
    for by_length in (False, True):
        batches = plain.plain_batches(encoded, pad=0, by_length=by_length)
        assert [len(batch) for batch in batches] == [32, 8]
        result = plain.plain_logits(checkpoint, batches, masks)
        torch.testing.assert_close(result, ours.logits_of(masks), atol=1e-5, rtol=0)
