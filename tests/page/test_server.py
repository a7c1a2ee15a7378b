"""The server's start: address, settings for safety, pages, opening of the first model."""

import gc
import logging
import shutil
import socket
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from qt_bert.errors import ArgumentError
from qt_bert.page.frame import MODEL, SCREENS, Opening
from qt_bert.page.server import check_port, entry_script, streamlit_arguments
from qt_bert.page.settings import Settings
from qt_bert.page.visit import open_first, pool_of
from qt_bert.shipped import GRADED, shipped


def test_a_taken_port_is_refused():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ArgumentError, match=f"127.0.0.1:{port}.*another --port"):
            check_port("127.0.0.1", port)
    check_port("127.0.0.1", port)


def test_an_unknown_address_is_refused():
    with pytest.raises(ArgumentError, match="no such address"):
        check_port("no host at all", 8501)


def test_streamlit_gets_the_settings_for_safety():
    arguments = streamlit_arguments("127.0.0.1", 8511)
    assert arguments[:2] == ["run", str(entry_script().with_name("server.py"))]
    for flag in (
        "--server.address=127.0.0.1",
        "--browser.serverAddress=127.0.0.1",
        "--server.port=8511",
        "--server.headless=true",
        "--server.enableXsrfProtection=true",
        "--browser.gatherUsageStats=false",
        "--client.showErrorDetails=none",
        "--client.disableDataExport=true",
        "--client.toolbarMode=viewer",
        "--server.maxUploadSize=10",
        "--server.fileWatcherType=none",
        "--server.allowedHosts=127.0.0.1",
    ):
        assert flag in arguments
    assert not any("allowedHosts" in a for a in streamlit_arguments("0.0.0.0", 1))


def test_config_toml_has_the_same_settings():
    settings = tomllib.loads((entry_script().parent / ".streamlit/config.toml").read_text("utf-8"))
    passed = dict(
        argument.removeprefix("--").split("=", 1)
        for argument in streamlit_arguments("127.0.0.1", 1)[2:]
    )
    stored = {
        f"{part}.{name}": value for part in settings for name, value in settings[part].items()
    }
    only_passed = {"server.port", "server.headless", "server.allowedHosts"}
    for name in (
        passed.keys() - only_passed - {"global.developmentMode", "logger.hideWelcomeMessage"}
    ):
        assert passed[name] in (stored[name], str(stored[name]).lower())


def test_streamlit_knows_every_setting():
    from streamlit import config

    for argument in streamlit_arguments("127.0.0.1", 1)[2:]:
        name = argument.removeprefix("--").split("=", 1)[0]
        assert name in config.get_config_options(), name


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch):
    for name in ("MODELS", "RUN", "BASE", "LANGUAGE"):
        monkeypatch.delenv(f"QT_BERT_APP_{name}", raising=False)


@pytest.mark.parametrize(
    "settings",
    [
        Settings(),
        Settings(
            models=(Path("/a b/模型"), Path("/c,d:e")),
            run=Path("/r"),
            base=Path("/b"),
            language="en",
        ),
    ],
)
def test_settings_survive_the_environment(settings, monkeypatch):
    monkeypatch.setenv("QT_BERT_APP_RUN", "/inherited")
    monkeypatch.setenv("QT_BERT_APP_BASE", "/inherited")
    for name, value in settings.to_environment().items():
        monkeypatch.setenv(name, value)
    assert Settings.read() == settings


def test_an_unknown_language_is_chinese(monkeypatch):
    monkeypatch.setenv("QT_BERT_APP_LANGUAGE", "<b>")
    assert Settings.read().language == "zh"


def test_every_page_has_its_script_and_every_script_is_a_page():
    folder = entry_script().parent
    assert {path.stem for path in (folder / "screens").glob("*.py")} == set(SCREENS)
    assert not (folder / "pages").exists()  # Streamlit's older navigation would begin


def test_the_frame_loads_neither_torch_nor_pandas():
    code = (
        "import qt_bert.page.frame, sys; print({'torch', 'pandas', 'altair'} & sys.modules.keys())"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout == "set()\n"


@pytest.fixture
def unfrozen():
    gc.unfreeze()
    yield
    gc.unfreeze()


def test_the_first_model_is_opened_and_hidden_from_the_garbage_collector(checkpoint_of, unfrozen):
    settings = Settings(models=(checkpoint_of(),))
    opening = Opening(settings)
    assert opening.opened.wait(60) and opening.step is MODEL
    assert gc.get_freeze_count() > 10_000
    pool = pool_of(settings)
    assert pool.open(pool.names[0]) is pool.open(pool.names[0])


def test_results_of_another_model_are_named(checkpoint_of, tmp_path, capsys, unfrozen):
    run, folder = tmp_path / "run", tmp_path / "mine"
    shutil.copytree(checkpoint_of(), folder)
    shutil.copyfile(shipped(f"{GRADED}/heads.json"), folder / "heads.json")
    run.mkdir()
    open_first(Settings(models=(folder,), run=run))
    no_run, other = capsys.readouterr().err.splitlines()
    assert no_run.startswith("run was not taken") and "other weights than mine" in other


def test_an_error_of_opening_is_left_to_the_page(tmp_path, caplog):
    with caplog.at_level(logging.WARNING):
        assert Opening(Settings(models=(tmp_path,))).opened.wait(60)
    assert str(tmp_path) in caplog.text
