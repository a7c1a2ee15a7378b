"""Files and folders are there whole, or as they were."""

import hashlib
import os
import subprocess
import sys

import pytest

from qt_bert import files
from qt_bert.errors import RunFolderError
from qt_bert.resume import differing


def test_a_file_appears_when_it_is_whole(tmp_path):
    path = tmp_path / "new" / "a.txt"
    with files.atomic_write(path) as temporary:
        temporary.write_text("whole")
        assert not path.exists() and temporary.parent == path.parent
        assert files.is_vacant(path.parent)
    assert [one.name for one in path.parent.iterdir()] == ["a.txt"]
    assert path.read_text() == "whole"


def test_an_error_leaves_the_old_file(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(OSError, match="disk"), files.atomic_write(path) as temporary:
        temporary.write_text("hal")
        raise OSError("disk")
    assert path.read_text() == "old" and [one.name for one in tmp_path.iterdir()] == ["a.txt"]


def test_two_writers_of_one_file_do_not_meet(tmp_path):
    path = tmp_path / "a.txt"
    with files.atomic_write(path) as one:
        one.write_text("one")
        with files.atomic_write(path) as other:
            assert other != one
            other.write_text("other")
        assert path.read_text() == "other" and one.read_text() == "one"
    assert path.read_text() == "one"


def test_a_folder_is_changed_as_one(tmp_path):
    path = tmp_path / "model"
    for number in range(2):
        with files.atomic_folder(path) as temporary:
            (temporary / f"{number}").write_text("")
    with pytest.raises(KeyboardInterrupt), files.atomic_folder(path) as temporary:
        (temporary / "2").write_text("")
        raise KeyboardInterrupt
    assert [one.name for one in path.iterdir()] == ["1"]
    assert [one.name for one in tmp_path.iterdir()] == ["model"]


def test_a_folder_and_all_in_it_have_the_modes_of_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        with files.atomic_folder(tmp_path / "model") as temporary:
            (temporary / "sub").mkdir()
            for file in ("a", "sub/b"):
                (temporary / file).touch(0o600)
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.rglob("*")}
    assert modes == {"model": 0o750, "sub": 0o750, "a": 0o640, "b": 0o640}


def test_a_link_stays_and_the_folder_that_it_leads_to_is_replaced(tmp_path):
    (tmp_path / "disk").mkdir()
    link = tmp_path / "model"
    link.symlink_to("disk")
    for number in range(2):
        with files.atomic_folder(link) as temporary:
            (temporary / f"{number}").write_text("")
    assert link.is_symlink() and [one.name for one in link.iterdir()] == ["1"]
    assert sorted(one.name for one in tmp_path.iterdir()) == ["disk", "model"]


WRITE = """
import sys, time
from pathlib import Path
from qt_bert.files import atomic_folder, atomic_write
with atomic_write(Path(sys.argv[1], "a")), atomic_folder(Path(sys.argv[1], "b")) as folder:
    (folder / "half").touch()
    print("written", flush=True)
    time.sleep(60)
"""


def test_what_a_kill_left_goes_with_the_next_write_and_not_while_its_writer_lives(tmp_path):
    def write():
        with files.atomic_write(tmp_path / "a"), files.atomic_folder(tmp_path / "b"):
            pass
        return sorted(tmp_path.iterdir())

    (tmp_path / ".a.b.1.tmp").touch()  # of another file, a.b
    both = [tmp_path / ".a.b.1.tmp", tmp_path / "a", tmp_path / "b"]
    with subprocess.Popen(
        [sys.executable, "-c", WRITE, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None and other.stdout.readline() == "written\n"
        assert len(write()) == 5
        other.kill()
    assert len([*tmp_path.iterdir()]) == 5
    assert write() == both
    (tmp_path / "b").rename(tmp_path / ".b.old")  # killed between two renames
    assert write() == both


def test_a_folder_with_what_a_kill_left_is_vacant(tmp_path):
    assert files.is_vacant(tmp_path / "gone") and files.is_vacant(tmp_path)
    left = tmp_path / ".run.json.123.tmp"
    left.write_text("")
    assert files.is_vacant(tmp_path) and not files.is_vacant(left)
    (tmp_path / "run.json").write_text("")
    assert not files.is_vacant(tmp_path)


def test_json_is_read_as_it_was_written_and_knows_no_nan(tmp_path):
    path = tmp_path / "a.json"
    files.write_json(path, {"紫": [1, 2.5, None]})
    assert files.read_json(path) == {"紫": [1, 2.5, None]}
    assert "紫" in path.read_text(encoding="utf-8")
    with pytest.raises(ValueError, match="Out of range float"):
        files.write_json(path, float("nan"))
    assert files.read_json(path) == {"紫": [1, 2.5, None]}
    path.write_text("[" * 9_999)
    with pytest.raises(ValueError, match="too deep"):
        files.read_json(path)


def test_the_hash_is_that_of_the_bytes(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"ab" * 10**6)
    assert files.sha256_file(path) == hashlib.sha256(b"ab" * 10**6).hexdigest()


HOLD = """
import sys, time
from qt_bert.files import one_writer
with one_writer(sys.argv[1]):
    print("held", flush=True)
    time.sleep(60)
"""


def test_one_process_at_a_time_writes_a_place(tmp_path):
    out = tmp_path / "runs" / "mine"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(out)], stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None and other.stdout.readline() == "held\n"
        busy = pytest.raises(RunFolderError, match=f"process {other.pid} on .* is writing it")
        with busy, files.one_writer(out):
            pass
        other.kill()
    with files.one_writer(out):  # what a kill leaves holds nobody up
        assert [path.name for path in out.parent.iterdir()] == [".mine.lock"]
    assert list(out.parent.iterdir()) == []


def test_where_no_lock_can_be_put_there_is_none(tmp_path):
    (tmp_path / "file").write_text("")
    with files.one_writer(tmp_path / "file" / "out"):
        pass


def test_inputs_that_one_run_alone_has_differ():
    assert differing({"a": 1, "b": None, "c": 2}, {"a": 1, "d": 3}) == ["c", "d"]
