"""An installed wheel finds what ships, without the source tree."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_a_wheel_grades_a_pair_from_what_ships(tmp_path):
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", tmp_path, ROOT]
    subprocess.run(build, check=True)
    (wheel,) = tmp_path.glob("qt_bert-*.whl")
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    assert wheel.stat().st_size <= 100_000_000
    assert {path.name for path in (site / "qt_bert/_shipped").iterdir()} == {
        path.name for path in (ROOT / "data").iterdir()
    }
    assert not (site / "qt_bert/_shipped/checkpoints/pretrained").exists()
    for name in ("inspection.py", "icon.svg", "screens/focus.py", ".streamlit/config.toml"):
        assert (site / "qt_bert" / "_apps" / name).is_file(), name
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import qt_bert; "
        "assert qt_bert.__file__.startswith(sys.argv[1]), qt_bert.__file__; "
        "print(qt_bert.load().grade('京东小哥', '京东小哥最近在干嘛').grade)"
    )
    run = [sys.executable, "-c", code, site]
    out = subprocess.run(run, capture_output=True, text=True, cwd=tmp_path)
    assert out.returncode == 0, out.stderr
    assert out.stdout.strip() in {"1", "2", "3", "4", "5"}
    run[2] = code[: code.index("print(")] + "qt_bert.load().probe('tuning')"
    out = subprocess.run(run, capture_output=True, text=True, cwd=tmp_path)
    assert "ArgumentError" in out.stderr and "--base" in out.stderr.splitlines()[-1]


def test_no_tracked_file_names_a_package_index_or_a_machine():
    listed = subprocess.run(
        ["git", "ls-files", "*.py", "*.toml", "*.md", "*.txt", "Makefile", ".ci/run"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if listed.returncode:
        pytest.skip("not a git checkout")
    for name in listed.stdout.split():
        text = (ROOT / name).read_text(encoding="utf-8")
        assert "/simple" + "/" not in text and "--index" + "-url" not in text, name
