"""A sweep in shards ends in the bytes of a plain one, whatever happened on the way."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from qt_bert.ablation import run_sweep as run_sweep_module
from qt_bert.ablation.guards import run_guards
from qt_bert.ablation.shard_folder import shard_line, shard_logits
from qt_bert.ablation.work import Mark, SweepWork
from qt_bert.encoder import open_checkpoint
from qt_bert.errors import RunFolderError
from qt_bert.files import read_json, write_json
from qt_bert.scale.cluster.cluster import EngineError
from qt_bert.scale.sweeping.filler import ROUNDS
from qt_bert.scale.sweeping.shards import ShardLine
from qt_bert.scoring.bulk import Scorer
from tests.scale.swept import MODEL, Killed, Workers, a_few, contents, every_kind, run


@pytest.fixture(autouse=True)
def one_thread():
    """The bits of products depend on the number of threads, which workers set to one."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def short_guards(monkeypatch, request):
    if "guarded" not in request.fixturenames:
        monkeypatch.setattr(run_sweep_module, "run_guards", lambda *_, **__: {"bound": 1e-5})


@pytest.fixture
def guarded():
    return run_guards


@pytest.fixture
def whole(scorer, pairs, tmp_path) -> dict[str, bytes]:
    """The files of a plain sweep."""
    run(scorer, pairs, tmp_path / "whole")
    return contents(tmp_path / "whole")


class Counter:
    """A progress that adds up."""

    def __init__(self) -> None:
        self.runs = 0

    def advance(self, amount: int = 1, note: str = "") -> None:
        self.runs += amount


def stop(scorer, pairs, out: Path, **workers) -> None:
    with pytest.raises(Killed):
        run(scorer, pairs, out, Workers(**workers))


def mark(out: Path) -> dict[str, int]:
    return json.loads((out / ".progress.json").read_text())


@pytest.mark.parametrize("order", [1, -1])
def test_every_file_has_the_bytes_of_a_plain_sweep(scorer, pairs, tmp_path, guarded, order):
    run(scorer, pairs, tmp_path / "whole", variants=every_kind())
    workers = Workers(order)
    run(scorer, pairs, tmp_path / "s", workers, variants=every_kind())
    assert workers.asked == [[0, 1, 2, 3]]
    found = contents(tmp_path / "s")
    assert found == contents(tmp_path / "whole")
    assert "means.safetensors" in found and len(found["effects.csv"].splitlines()) > 20


def test_one_shard_may_hold_all(scorer, pairs, tmp_path, whole):
    workers = Workers()
    run(scorer, pairs, tmp_path / "s", workers, each=100)
    assert workers.asked == [[0]]
    assert contents(tmp_path / "s") == whole


def test_an_offline_model(offline_checkpoint_of, pairs, tmp_path):
    offline = Scorer(open_checkpoint(offline_checkpoint_of(**MODEL)))
    run(offline, pairs, tmp_path / "whole")
    run(offline, pairs, tmp_path / "s", Workers())
    assert contents(tmp_path / "s") == contents(tmp_path / "whole")


def test_cut_texts_are_counted_once(scorer, pairs, tmp_path):
    short = Scorer(scorer.checkpoint, max_length=20)
    run(short, pairs, tmp_path / "whole")
    stop(short, pairs, tmp_path / "s", stop=2, order=-1)
    found = run(short, pairs, tmp_path / "s", Workers(), resume=True)
    assert contents(tmp_path / "s") == contents(tmp_path / "whole")
    assert short.counts.pairs == len(pairs)
    assert short.counts.truncated_titles == found.record.truncated_titles > 0


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("stopped", [0, 1, 3])
def test_a_stopped_sweep_hands_out_what_is_missing(scorer, pairs, tmp_path, whole, stopped, order):
    stop(scorer, pairs, tmp_path / "s", stop=stopped, order=order)
    workers = Workers()
    run(scorer, pairs, tmp_path / "s", workers, resume=True)
    assert workers.asked == [[0, 1, 2, 3][stopped:] if order == 1 else [0, 1, 2, 3][: 4 - stopped]]
    assert contents(tmp_path / "s") == whole


def test_the_mark_knows_batches_in_a_row_alone(scorer, pairs, tmp_path):
    stop(scorer, pairs, tmp_path / "late", stop=2, order=-1)
    assert mark(tmp_path / "late") == {"batches": 0, "pairs": 0}
    assert shard_logits(tmp_path / "late", 3).exists() and shard_line(tmp_path / "late", 2).exists()
    stop(scorer, pairs, tmp_path / "early", stop=2)
    assert mark(tmp_path / "early")["pairs"] == 4
    assert not list((tmp_path / "early" / "shards").iterdir())


def test_a_kill_between_logits_and_mark(scorer, pairs, tmp_path, monkeypatch, whole):
    def killed(work: SweepWork, done: Mark) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(SweepWork, "mark", killed)
        stop(scorer, pairs, tmp_path / "s")
    workers = Workers()
    run(scorer, pairs, tmp_path / "s", workers, resume=True)
    assert workers.asked == [[1, 2, 3]]
    assert contents(tmp_path / "s") == whole


def test_a_kill_between_mark_and_the_removal_of_files(scorer, pairs, tmp_path, monkeypatch, whole):
    from qt_bert.scale.sweeping import filler as shard_filler

    with monkeypatch.context() as patch:
        patch.setattr(shard_filler, "_remove", lambda *_: (_ for _ in ()).throw(Killed))
        stop(scorer, pairs, tmp_path / "s")
    workers = Workers()
    run(scorer, pairs, tmp_path / "s", workers, resume=True)
    assert workers.asked == [[1, 2, 3]]
    assert contents(tmp_path / "s") == whole


@pytest.mark.parametrize("order", [1, -1])
def test_a_plain_sweep_goes_on_with_one_in_shards(scorer, pairs, tmp_path, whole, order):
    stop(scorer, pairs, tmp_path / "s", stop=2, order=order)
    run(scorer, pairs, tmp_path / "s", resume=True)
    assert contents(tmp_path / "s") == whole


def test_shards_go_on_with_a_plain_sweep(scorer, pairs, tmp_path, monkeypatch, whole):
    """Also where its last batch lies in the middle of a shard, whose first pair counts once."""
    store = SweepWork.store

    def stopping(work, swept):
        if work.done.pairs >= 3:
            raise Killed
        store(work, swept)

    with monkeypatch.context() as patch:
        patch.setattr(SweepWork, "store", stopping)
        with pytest.raises(Killed):
            run(scorer, pairs, tmp_path / "s")
    assert mark(tmp_path / "s")["pairs"] == 3
    workers, shown = Workers(order=-1), Counter()
    run(scorer, pairs, tmp_path / "s", workers, resume=True, shown=shown)
    assert workers.asked == [[1, 2, 3]]
    assert shown.runs == (len(a_few()) + 1) * len(pairs)
    assert contents(tmp_path / "s") == whole


def test_a_finished_sweep_hands_nothing_out(scorer, pairs, tmp_path, whole):
    run(scorer, pairs, tmp_path / "s", Workers())
    workers = Workers()
    run(scorer, pairs, tmp_path / "s", workers, resume=True)
    assert workers.asked == [] and contents(tmp_path / "s") == whole


def test_progress_counts_every_run_once(scorer, pairs, tmp_path):
    shown = Counter()
    with pytest.raises(Killed):
        run(scorer, pairs, tmp_path / "s", Workers(stop=3, order=-1), shown=shown)
    runs = len(a_few()) + 1
    assert shown.runs == 6 * runs
    resumed = Counter()
    run(scorer, pairs, tmp_path / "s", Workers(), resume=True, shown=resumed)
    assert resumed.runs == 8 * runs


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-8])


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def _of_another_sweep(path: Path) -> None:
    write_json(path, read_json(path) | {"job": "another"})


def _of_another_shard(path: Path) -> None:
    write_json(path, read_json(path) | {"number": 2})


def _of_other_rows(path: Path) -> None:
    write_json(path, read_json(path) | {"rows": [0, 1]})


@pytest.mark.parametrize(
    ("file", "damage"),
    [
        (shard_logits, _cut),
        (shard_logits, _flip),
        (shard_logits, Path.unlink),
        (shard_line, _cut),
        (shard_line, Path.unlink),
        (shard_line, _of_another_sweep),
        (shard_line, _of_another_shard),
        (shard_line, _of_other_rows),
    ],
)
def test_a_stored_shard_that_is_not_whole_is_computed_again(
    scorer, pairs, tmp_path, whole, file, damage
):
    stop(scorer, pairs, tmp_path / "s", stop=2, order=-1)
    damage(file(tmp_path / "s", 3))
    workers = Workers()
    run(scorer, pairs, tmp_path / "s", workers, resume=True)
    assert workers.asked == [[0, 1, 3]]
    assert contents(tmp_path / "s") == whole


def test_a_shard_that_comes_back_damaged_is_handed_out_again(scorer, pairs, tmp_path, whole):
    once: list[int] = []

    def damage(line: ShardLine) -> None:
        if line.number == 1 and not once:
            once.append(1)
            _flip(shard_logits(tmp_path / "s", 1))

    workers = Workers(after=damage)
    run(scorer, pairs, tmp_path / "s", workers)
    assert workers.asked == [[0, 1, 2, 3], [1]]
    assert contents(tmp_path / "s") == whole


def test_no_shard_is_handed_out_without_end(scorer, pairs, tmp_path, whole):
    def damage(line: ShardLine) -> None:
        if line.number == 1:
            _flip(shard_logits(tmp_path / "s", 1))

    workers = Workers(after=damage)
    with pytest.raises(RunFolderError, match=r"1 shards .*number 1 \(.*000001.npy: damaged\)"):
        run(scorer, pairs, tmp_path / "s", workers)
    assert workers.asked == [[0, 1, 2, 3]] + [[1]] * ROUNDS
    again = Workers()
    run(scorer, pairs, tmp_path / "s", again, resume=True)
    assert again.asked == [[1]] and contents(tmp_path / "s") == whole


def test_a_shard_that_nobody_speaks_of_is_missing(scorer, pairs, tmp_path):
    class Forgetful(Workers):
        def __call__(self, job, shards):
            yield from super().__call__(job, [one for one in shards if one.number != 3])

    with pytest.raises(RunFolderError, match="1 shards .*number 3 .no worker finished it"):
        run(scorer, pairs, tmp_path / "s", Forgetful())


def test_rounds_that_bring_shards_may_be_many(scorer, pairs, tmp_path, whole):
    class Slow(Workers):
        def __call__(self, job, shards):
            yield from super().__call__(job, shards[:1])
            raise EngineError("ActorDiedError: gone")

    workers = Slow()
    run(scorer, pairs, tmp_path / "s", workers)
    assert workers.asked == [[0], [1], [2], [3]] and contents(tmp_path / "s") == whole


def test_why_ray_gave_up_is_said(scorer, pairs, tmp_path):
    class Gone(Workers):
        def __call__(self, job, shards):
            raise EngineError("ActorDiedError: gone")
            yield

    with pytest.raises(RunFolderError, match="4 shards .*Ray gave up: ActorDiedError: gone"):
        run(scorer, pairs, tmp_path / "s", Gone())


def test_a_line_that_comes_twice_counts_once(scorer, pairs, tmp_path, whole):
    class Stammering(Workers):
        def __call__(self, job, shards):
            for said in super().__call__(job, shards):
                yield from (said, said)

    shown = Counter()
    run(scorer, pairs, tmp_path / "s", Stammering(), shown=shown)
    assert shown.runs == (len(a_few()) + 1) * len(pairs)
    assert contents(tmp_path / "s") == whole


def test_shards_of_another_sweep_are_not_taken(scorer, pairs, tmp_path):
    """Left by an actor that outlived its driver, and finished after `--overwrite` began."""
    stop(scorer, pairs, tmp_path / "other", stop=2, order=-1)
    run(scorer, pairs, tmp_path / "whole", variants=a_few(seed=1))

    class Late(Workers):
        def __call__(self, job, shards):
            for number in (2, 3):
                for file in (shard_logits, shard_line):
                    target = file(tmp_path / "s", number)
                    target.parent.mkdir(exist_ok=True)
                    target.write_bytes(file(tmp_path / "other", number).read_bytes())
            raise Killed
            yield

    with pytest.raises(Killed):
        run(scorer, pairs, tmp_path / "s", Late(), variants=a_few(seed=1))
    workers = Workers()
    run(scorer, pairs, tmp_path / "s", workers, variants=a_few(seed=1), resume=True)
    assert workers.asked == [[0, 1, 2, 3]]
    assert contents(tmp_path / "s") == contents(tmp_path / "whole")


def test_overwriting_takes_nothing_of_what_was(scorer, pairs, tmp_path, whole):
    stop(scorer, pairs, tmp_path / "s", stop=2, order=-1)
    workers = Workers()
    run(scorer, pairs, tmp_path / "s", workers, overwrite=True)
    assert workers.asked == [[0, 1, 2, 3]] and contents(tmp_path / "s") == whole


def test_pairs_that_changed_in_the_folder_are_not_handed_out(scorer, pairs, tmp_path):
    stop(scorer, pairs, tmp_path / "s", stop=2)
    path = tmp_path / "s" / "pairs.csv"
    path.write_text(path.read_text(encoding="utf-8").replace("狗追猫", "狗追狗"), encoding="utf-8")
    with pytest.raises(RunFolderError, match="pairs.csv: not the pairs of this sweep any more"):
        run(scorer, pairs, tmp_path / "s", Workers(), resume=True)
