"""The hash of the package's sources, and the versions it runs with."""

import numpy as np

from qt_bert.shipped import installed_versions, source_hash


def test_an_edited_or_renamed_source_changes_the_hash(tmp_path):
    hashes = []
    for number, (name, text) in enumerate(
        [("a.py", "x = 1\n"), ("a.py", "x = 2\n"), ("b.py", "x = 1\n"), ("b.toml", "x = 1\n")]
    ):
        package = tmp_path / str(number)
        package.mkdir()
        (package / name).write_text(text)
        hashes.append(source_hash(package))
    assert len(set(hashes)) == 4


def test_other_files_do_not_change_the_hash(tmp_path):
    for number in (1, 2):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "a.py").write_text("x = 1\n")
    (tmp_path / "2" / "style.css").write_text("a {}")
    assert source_hash(tmp_path / "1") == source_hash(tmp_path / "2")


def test_versions_are_those_installed():
    versions = installed_versions()
    assert versions["numpy"] == np.__version__
    assert set(versions) == {"python", "qt-bert", "torch", "transformers", "numpy"}
