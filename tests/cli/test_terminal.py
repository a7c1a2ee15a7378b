import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import typer

from qt_bert.cli.terminal import resumable, table
from qt_bert.request import discovery_of, is_shipped
from qt_bert.shipped import DEV, GRADED, PRETRAINED, TEST, shipped


def test_what_ships_has_its_base_and_its_dev_split_however_it_is_spelt(monkeypatch):
    graded = shipped(GRADED)
    monkeypatch.chdir(graded.parent)
    assert is_shipped(Path("graded"), GRADED) and is_shipped(graded, GRADED)
    monkeypatch.chdir(shipped(TEST).parent)
    assert discovery_of(Path("test.tsv")) == shipped(DEV)


def test_of_another_model_or_file_nothing_is_assumed(tmp_path):
    assert not is_shipped(tmp_path, GRADED) and not is_shipped(shipped(PRETRAINED), GRADED)
    assert discovery_of(tmp_path / "test.tsv") is None and discovery_of(shipped(DEV)) is None


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_work_that_resumes_tidies_up_and_says_so_when_it_is_stopped(capsys, number, status):
    before, tidied = signal.getsignal(signal.SIGTERM), []
    with pytest.raises(typer.Exit) as ended, resumable(None):
        try:
            os.kill(os.getpid(), number)
            time.sleep(60)
        finally:
            tidied.append(number)
    assert ended.value.exit_code == status and tidied == [number]
    assert capsys.readouterr().err == "interrupted; --resume goes on where it stopped\n"
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_text_keeps_its_row_and_moves_no_cursor():
    shown = table([("title", "n"), ("a\r\nb\x1b[2J", "1")])
    assert shown == "title    n\na b\ufffd[2J  1"


def test_work_in_a_thread_without_signals_is_done():
    def work():
        with resumable(None):
            return "done"

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(work).result() == "done"
