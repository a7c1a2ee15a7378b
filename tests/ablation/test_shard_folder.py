"""The folder of shards inside a sweep's."""

from __future__ import annotations

from qt_bert.ablation.shard_folder import clear_shards, shard_line, shard_logits


def test_shards_go_with_what_a_kill_left_of_their_writing(tmp_path):
    for path in (shard_logits(tmp_path, 3), shard_line(tmp_path, 1_234_567)):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"x")
        path.with_name(f".{path.name}.4711.tmp").write_bytes(b"x")
    (tmp_path / "run.json").write_bytes(b"{}")
    clear_shards(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


def test_a_file_of_somebody_else_stays(tmp_path):
    shard_logits(tmp_path, 3).parent.mkdir()
    shard_logits(tmp_path, 3).write_bytes(b"x")
    (tmp_path / "shards" / "notes.npy").write_bytes(b"mine")
    clear_shards(tmp_path)
    assert [path.name for path in (tmp_path / "shards").iterdir()] == ["notes.npy"]


def test_no_folder_is_no_fault(tmp_path):
    clear_shards(tmp_path)
    (tmp_path / "shards").write_bytes(b"a file")
    clear_shards(tmp_path)
    assert (tmp_path / "shards").read_bytes() == b"a file"
