"""What a path means when it is what ships."""

from __future__ import annotations

from pathlib import Path

from qt_bert.cli.opening import base_of, discovery_of
from qt_bert.shipped import DEV, GRADED, PRETRAINED, TEST, shipped


def test_what_ships_has_its_base_and_its_dev_split_however_it_is_spelt(monkeypatch):
    graded = shipped(GRADED)
    monkeypatch.chdir(graded.parent)
    assert base_of(Path("graded")) == base_of(graded) == shipped(PRETRAINED)
    monkeypatch.chdir(shipped(TEST).parent)
    assert discovery_of(Path("test.tsv")) == shipped(DEV)


def test_of_another_model_or_file_nothing_is_assumed(tmp_path):
    assert base_of(tmp_path) is None
    assert base_of(shipped(PRETRAINED)) is None
    assert discovery_of(tmp_path / "test.tsv") is None
