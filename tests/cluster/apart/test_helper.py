"""A helper answers what functions give and raise; what ends it is told, and ends nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from qt_bert.cluster import processes as helper_module
from qt_bert.cluster.processes import Helper, HelperGoneError, last_words
from qt_bert.errors import ArgumentError
from tests.cluster.calls import (
    dies,
    loses_its_line,
    module_paths,
    raises_unportable,
    refuses,
    said,
    tidies_up,
)
from tests.cluster.planted import ROOT
from tests.cluster.rays import are_gone, hears_ctrl_c, waited

OWNER = """
import os, time
from qt_bert.cluster.processes import Helper
with Helper() as helper:
    print(helper.call(os.getpid), flush=True)
    time.sleep(1000)
"""


@pytest.fixture
def helper() -> Iterator[Helper]:
    with Helper() as started:
        yield started


def test_it_gives_what_a_function_gives_one_call_after_the_other(helper: Helper) -> None:
    number = helper.call(os.getpid)
    assert number != os.getpid() and helper.call(os.getpid) == number
    assert list(helper.stream(said, "猫", 2, None)) == ["猫", 2, None]
    assert list(helper.stream(said)) == [] and helper.call(os.getcwd) == os.getcwd()
    assert helper.alive


def test_it_raises_what_a_function_raises_and_goes_on(helper: Helper) -> None:
    heard = helper.stream(refuses, "one")
    assert next(heard) == "one"
    with pytest.raises(ArgumentError, match="one is no more"):
        next(heard)
    with pytest.raises(RuntimeError, match="Unportable: odd"):
        helper.call(raises_unportable)
    with pytest.raises(ConnectionResetError, match="of another line"):
        helper.call(loses_its_line)
    with pytest.raises(TypeError, match="cannot pickle"):
        helper.call(open, os.devnull)
    assert helper.call(len, "高铁") == 2


@pytest.mark.parametrize(
    ("how", "words"), [("signal", "signal 9"), ("exit", "exit status 1: the last words")]
)
def test_how_it_ended_is_told(helper: Helper, how: str, words: str) -> None:
    heard = helper.stream(dies, how)
    assert next(heard) == "alive"
    with pytest.raises(HelperGoneError, match=f"^{words}$"):
        next(heard)
    assert not helper.alive
    with pytest.raises(HelperGoneError, match=f"^{words}$"):
        helper.call(os.getpid)


def test_one_that_does_not_answer_in_time_is_ended(helper: Helper) -> None:
    assert helper.call(len, "in time", seconds=60) == 7
    number = helper.call(os.getpid)
    with pytest.raises(HelperGoneError, match="no answer within 0.2 seconds"):
        helper.call(time.sleep, 1000, seconds=0.2)
    assert not helper.alive and are_gone([number])


def test_what_is_not_heard_to_its_end_ends_it(helper: Helper) -> None:
    number = helper.call(os.getpid)
    heard = helper.stream(said, *range(10))
    assert next(heard) == 0
    heard.close()
    assert not helper.alive and are_gone([number])


def test_behind_the_block_it_has_tidied_up_and_is_gone(tmp_path: Path) -> None:
    with Helper() as helper:
        number = helper.call(os.getpid)
        helper.call(tidies_up, str(tmp_path / "tidy"), 0.5)
    assert (tmp_path / "tidy").exists() and are_gone([number])


def test_a_block_left_with_an_error_does_not_wait_for_it(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), Helper() as helper:
        number = helper.call(os.getpid)
        helper.call(tidies_up, str(tmp_path / "tidy"), 25)
        raise KeyboardInterrupt
    assert not (tmp_path / "tidy").exists() and are_gone([number])


def test_one_that_does_not_end_is_killed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(helper_module, "_END_SECONDS", 0.2)
    with Helper() as helper:
        number = helper.call(os.getpid)
        helper.call(tidies_up, str(tmp_path / "tidy"), 25)
    assert not (tmp_path / "tidy").exists() and are_gone([number])


def test_it_dies_with_its_owner_and_hears_no_ctrl_c() -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=hears_ctrl_c,
    )
    assert owner.stdout is not None
    number = int(owner.stdout.readline())
    assert os.getpgid(number) != os.getpgid(owner.pid)
    assert psutil.Process(number).ppid() == owner.pid
    owner.kill()
    owner.communicate()
    assert waited(lambda: are_gone([number]), 10)


def test_it_finds_modules_where_this_process_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"found_{name}.py").write_text(f"def tell():\n    return {name!r}\n")
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.syspath_prepend("")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "there"))
    from found_here import tell

    with Helper() as helper:
        assert helper.call(tell) == "here"
        assert str(tmp_path / "there") in helper.call(module_paths)


def test_modules_of_the_working_folder_are_not_taken_for_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pickle.py").write_text("raise SystemExit('mine')")
    monkeypatch.chdir(tmp_path)
    with Helper() as helper:
        assert helper.call(len, "ab") == 2


def test_last_words_are_the_last_line_that_holds_anything() -> None:
    assert last_words(b"one\ntwo \n\n") == ": two"
    assert last_words(b" \n") == "" and last_words(b"\xff\n").startswith(": ")
