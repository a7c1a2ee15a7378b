"""`qt-bert app`: what is wrong is said before a server starts."""

import importlib.util
import socket

import pytest


@pytest.fixture
def served(monkeypatch):
    """What the launcher is called with, instead of a server."""
    from qt_bert.app import launch

    calls = []
    monkeypatch.setattr(launch, "serve", lambda settings, **more: calls.append((settings, more)))
    return calls


@pytest.fixture
def port():
    """A port that is free."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def test_it_starts_with_what_was_asked_for(run, served, port, checkpoint_of, monkeypatch):
    folder = checkpoint_of()
    monkeypatch.chdir(folder.parent)
    options = ("--models", folder.name, "--language", "en", "--threads", "1", "--no-browser")
    assert run("app", "--port", str(port), *options).status == 0
    ((settings, more),) = served
    assert settings.models == folder and settings.language == "en"
    assert more == {"host": "127.0.0.1", "port": port, "browser": False, "threads": 1}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--models", "{empty}"), "no checkpoint here"),
        (("--models", "/no/such/folder"), "no checkpoint here"),
        (("--run", "{empty}"), "no run folder"),
        (("--base", "nope"), "--base 'nope'"),
        (("--host", "203.0.113.9"), "cannot listen"),
    ],
)
def test_what_is_wrong_is_said(run, served, port, tmp_path, options, said):
    ended = run("app", "--port", str(port), *(text.format(empty=tmp_path) for text in options))
    assert ended.status == 2 and said in ended.err and "Traceback" not in ended.err
    assert not served


def test_without_streamlit_it_says_what_to_install(run, served, monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "streamlit" else real(name)
    )
    ended = run("app")
    assert ended.status == 2 and "pip install 'qt-bert[app]'" in ended.err
