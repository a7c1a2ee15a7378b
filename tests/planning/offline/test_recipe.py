"""Trained alike but for the block, by what the folders say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from qt_bert.errors import ArgumentError
from qt_bert.planning.offline import check_same_recipe

ASKED = {"lr": 1e-4, "seed": 3, "base": "ab", "max_length": 128}
BLOCK = {"offline_layers": 6, "title_start": 24, "title_tokens": 64, "layers_above": "0,1,2,4,5,11"}


def folder(path: Path, asked: dict[str, Any], **facts: Any) -> Path:
    path.mkdir()
    hashes = {"data_sha256": "d1", "texts_sha256": "t1"}
    stored = {"schema": 1, "asked": asked, **hashes, **facts}
    (path / "training.json").write_text(json.dumps(stored), encoding="utf-8")
    return path


def test_the_block_and_what_it_cuts_may_differ(tmp_path: Path) -> None:
    offline = folder(tmp_path / "offline", ASKED | BLOCK, data_sha256="d2", best_step=7)
    check_same_recipe(offline, folder(tmp_path / "control", ASKED))


@pytest.mark.parametrize(
    ("asked", "facts", "said"),
    [
        ({"seed": 4}, {}, "seed: 3 and 4"),
        ({"base": "cd"}, {}, "base: 'ab' and 'cd'"),
        ({"levels": 3}, {}, "levels: None and 3"),
        ({}, {"texts_sha256": "t2"}, "the training pairs, by texts_sha256"),
    ],
)
def test_anything_else_may_not(
    tmp_path: Path, asked: dict[str, Any], facts: dict[str, Any], said: str
) -> None:
    offline = folder(tmp_path / "offline", ASKED | BLOCK)
    control = folder(tmp_path / "control", ASKED | asked, **facts)
    with pytest.raises(ArgumentError, match=said) as refused:
        check_same_recipe(offline, control)
    assert "without --offline-layers" in str(refused.value)


def test_folders_without_the_newer_hash_are_told_apart_by_their_tokens(tmp_path: Path) -> None:
    for name, data in (("offline", "d1"), ("control", "d1"), ("other", "d2")):
        made = folder(tmp_path / name, ASKED, data_sha256=data)
        stored = json.loads((made / "training.json").read_text(encoding="utf-8"))
        del stored["texts_sha256"]
        (made / "training.json").write_text(json.dumps(stored), encoding="utf-8")
    check_same_recipe(tmp_path / "offline", tmp_path / "control")
    with pytest.raises(ArgumentError, match="by data_sha256"):
        check_same_recipe(tmp_path / "offline", tmp_path / "other")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": 1, "average_of": {}}'])
def test_folders_that_do_not_say_how_they_were_made(tmp_path: Path, text: str) -> None:
    control = folder(tmp_path / "control", ASKED)
    other = tmp_path / "other"
    other.mkdir()
    if text:
        (other / "training.json").write_text(text, encoding="utf-8")
    for pair, option in (
        ((other, control), "--offline "),
        ((control, other), "--offline-control "),
    ):
        with pytest.raises(ArgumentError, match=f"{option}.*`qt-bert train`"):
            check_same_recipe(*pair)
