"""Hashes of a folder leave out the file of heads, which changes no output."""

from __future__ import annotations

from pathlib import Path

from qt_bert.files import read_json
from qt_bert.models.folder import HEADS, folder_sha256, verify_manifest, write_manifest


def test_what_a_study_found_is_in_no_hash(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / HEADS).write_text("{}")
    before = folder_sha256(tmp_path)
    write_manifest(tmp_path)
    assert list(read_json(tmp_path / "manifest.json")["sha256"]) == ["config.json"]
    (tmp_path / "manifest.json").unlink()
    (tmp_path / HEADS).write_text('{"schema": 1}')
    assert folder_sha256(tmp_path) == before
    (tmp_path / "config.json").write_text("{ }")
    assert folder_sha256(tmp_path) != before


def test_a_folder_with_heads_is_valid(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    write_manifest(tmp_path)
    (tmp_path / HEADS).write_text("anything")
    verify_manifest(tmp_path)
