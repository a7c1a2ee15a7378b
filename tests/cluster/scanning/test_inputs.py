"""Whether inputs are as they were, where results may go, and names that no list could hold."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from qt_bert.cluster.places import place_of, shown
from qt_bert.cluster.scanning import check_inputs, find_inputs, refuse_inside, scan
from qt_bert.cluster.score import RayOptions, score_on_ray
from qt_bert.data.reader import ReaderOptions
from qt_bert.errors import ArgumentError, PairFileError
from tests.cluster.planted import write_pairs
from tests.cluster.rays import job_for

GB18030 = os.fsdecode("日志.tsv".encode("gb18030"))


def scanned(*files: Path) -> list[dict[str, Any]]:
    return [{"file": str(file), "size": file.stat().st_size} for file in files]


def test_files_that_are_needed_must_be_as_they_were(tmp_path: Path) -> None:
    old, new = (write_pairs(tmp_path / f"{name}.tsv", ["猫"]) for name in ("old", "new"))
    known = scanned(old)
    assert check_inputs([str(tmp_path)], known, {str(old)}) == [str(new)]
    old.write_text("query\ttitle\n")
    with pytest.raises(PairFileError, match=r"old\.tsv: changed since it was scanned"):
        check_inputs([str(tmp_path)], known, {str(old)})
    old.unlink()
    with pytest.raises(PairFileError, match=r"old\.tsv: gone since it was scanned"):
        check_inputs([str(tmp_path)], known, {str(old)})


def test_files_that_are_done_may_be_gone(tmp_path: Path) -> None:
    done, needed = (write_pairs(tmp_path / name, ["猫"]) for name in ("done.tsv", "needed.tsv"))
    folder = tmp_path / "folder"
    folder.mkdir()
    inside = write_pairs(folder / "x.tsv", ["狗"])
    known = scanned(done, needed, inside)
    done.unlink()
    inside.unlink()
    given = [str(done), str(needed), str(folder)]
    assert check_inputs(given, known, {str(needed)}) == []
    with pytest.raises(PairFileError, match=r"x\.tsv: gone"):
        check_inputs(given, known, {str(needed), str(inside)})


@pytest.mark.parametrize("out", ["day", "day/scored", "day/./a/../b", "file://{}/day/out"])
def test_results_do_not_go_where_the_inputs_are(tmp_path: Path, out: str) -> None:
    (tmp_path / "day").mkdir()
    write_pairs(tmp_path / "day" / "a.tsv", ["猫"])
    where = out.format(tmp_path) if "://" in out else str(tmp_path / out)
    with pytest.raises(ArgumentError, match=r"--out .*: lies in the input .*day; give a folder"):
        score_on_ray([str(tmp_path / "day")], job_for(tmp_path / "m", where), RayOptions())
    refuse_inside(str(tmp_path / "days"), [str(tmp_path / "day")])
    refuse_inside("s3://bucket/day/out?region=eu-west-1", [str(tmp_path / "day")])


@pytest.mark.parametrize("given", ["out/parts", "out/rejects.tsv", "out/./x/../parts/a.parquet"])
@pytest.mark.parametrize("resume", [False, True])
def test_inputs_do_not_lie_where_the_results_go(tmp_path: Path, given: str, resume: bool) -> None:
    job = job_for(tmp_path / "m", tmp_path / "out")
    with pytest.raises(ArgumentError, match=r"--out .*out: the input .* lies in it; give a folder"):
        score_on_ray([str(tmp_path / given)], job, RayOptions(), resume=resume)
    refuse_inside(str(tmp_path / "out"), [str(tmp_path / "output")])


def test_a_file_that_is_there_is_not_called_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write_pairs(tmp_path / "a.tsv", ["猫"])
    known = scanned(file)
    write_pairs(tmp_path / GB18030, ["猫"])
    assert check_inputs([str(tmp_path)], known, {str(file)}) == []

    def unreadable(self: Path, **options: Any) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(Path, "stat", unreadable)
    with pytest.raises(PairFileError, match=r"a\.tsv: cannot be read \(Input/output error\)"):
        check_inputs([str(tmp_path)], known, {str(file)})


def test_a_link_that_leads_nowhere_is_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    write_pairs(tmp_path / "a.tsv", ["猫"])
    (tmp_path / ".#a.tsv").symlink_to("nowhere")
    (tmp_path / "README").symlink_to("README")
    assert find_inputs([str(tmp_path)]).skipped == 2
    (tmp_path / "b.tsv").symlink_to(tmp_path / "unmounted" / "b.tsv")
    with pytest.raises(PairFileError, match=r"b\.tsv: cannot be read \(No such file"):
        scan([str(tmp_path)], ReaderOptions(), 10)


def test_a_link_that_leads_to_itself_is_told(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    refuse_inside(str(tmp_path / "out"), [str(loop)])
    with pytest.raises(PairFileError, match="cannot be read"):
        find_inputs([str(loop)])


def test_a_file_whose_name_is_no_text_is_named_with_its_bytes(tmp_path: Path) -> None:
    write_pairs(tmp_path / GB18030, ["猫"])
    written = r"\\xc8\\xd5.*\.tsv: this name is not UTF-8; rename"
    with pytest.raises(PairFileError, match=written):
        find_inputs([str(tmp_path)])
    for name in (str(tmp_path / GB18030), f"{tmp_path}/out{GB18030}"):
        with pytest.raises(ArgumentError, match=written):
            place_of(name)
    assert shown("日志.tsv") == "日志.tsv"
