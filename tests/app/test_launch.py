"""How the server is started: only for this machine, and safely, whatever its settings say."""

from __future__ import annotations

import socket
import tomllib

import pytest

from qt_bert.app.launch import check_port, entry_script, streamlit_arguments
from qt_bert.errors import ArgumentError


def test_a_taken_port_is_said():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ArgumentError, match=f"127.0.0.1:{port}.*another --port"):
            check_port("127.0.0.1", port)
    check_port("127.0.0.1", port)


def test_an_address_that_is_none_is_said():
    with pytest.raises(ArgumentError, match="no such address"):
        check_port("no host at all", 8501)


def test_streamlit_is_told_to_be_safe():
    arguments = streamlit_arguments("127.0.0.1", 8511, browser=False)
    assert arguments[:2] == ["run", str(entry_script())]
    for flag in (
        "--server.address=127.0.0.1",
        "--server.port=8511",
        "--server.headless=true",
        "--server.enableXsrfProtection=true",
        "--browser.gatherUsageStats=false",
        "--client.showErrorDetails=none",
        "--client.disableDataExport=true",
        "--server.maxUploadSize=10",
        "--server.fileWatcherType=none",
        "--server.allowedHosts=127.0.0.1",
    ):
        assert flag in arguments
    assert not any("allowedHosts" in a for a in streamlit_arguments("0.0.0.0", 1, browser=True))


def test_the_pages_own_settings_are_as_safe():
    settings = tomllib.loads((entry_script().parent / ".streamlit/config.toml").read_text("utf-8"))
    said = dict(
        argument.removeprefix("--").split("=", 1)
        for argument in streamlit_arguments("127.0.0.1", 1, browser=False)[2:]
    )
    own = {f"{part}.{name}": value for part in settings for name, value in settings[part].items()}
    for name in (
        "server.address",
        "server.enableXsrfProtection",
        "server.maxUploadSize",
        "server.fileWatcherType",
        "browser.gatherUsageStats",
        "client.showErrorDetails",
        "client.disableDataExport",
        "client.toolbarMode",
    ):
        assert said[name] == str(own[name]).lower() or said[name] == own[name]


def test_streamlit_knows_every_setting():
    from streamlit import config

    for argument in streamlit_arguments("127.0.0.1", 1, browser=False)[2:]:
        name = argument.removeprefix("--").split("=", 1)[0]
        assert name in config.get_config_options(), name
