"""The hash of the package's sources, and the versions it runs with."""

import numpy as np

from qt_bert.shipped import installed_versions, source_hash


def test_an_edited_or_renamed_source_changes_the_hash_and_another_file_does_not(tmp_path):
    hashes = []
    for name, value in (("a.py", 1), ("a.py", 2), ("b.py", 1), ("b.toml", 1)):
        package = tmp_path / f"{name}-{value}"
        package.mkdir()
        (package / name).write_text(f"x = {value}\n")
        hashes.append(source_hash(package))
        (package / "style.css").write_text("a {}")
        assert source_hash(package) == hashes[-1]
    assert len(set(hashes)) == 4


def test_versions_are_those_installed():
    versions = installed_versions()
    assert versions["numpy"] == np.__version__
    names = "python qt-bert torch transformers tokenizers numpy scipy scikit-learn jieba rjieba"
    assert set(versions) == set(names.split())
