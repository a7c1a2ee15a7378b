import importlib.util
import socket

import pytest

from qt_bert.page import server


@pytest.fixture
def served(monkeypatch):
    """What the launcher is called with, instead of a server."""
    calls = []
    monkeypatch.setattr(server, "serve", lambda settings, **more: calls.append((settings, more)))
    return calls


@pytest.fixture
def port():
    """A port that is free."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def test_it_starts_with_what_was_asked_for(run, served, port, checkpoint_of, monkeypatch):
    folder = checkpoint_of()
    monkeypatch.chdir(folder.parent)
    options = ("--models", folder.name, "--language", "en", "--threads", "1", "--no-browser")
    assert run("app", "--port", str(port), *options).status == 0
    ((settings, more),) = served
    assert settings.models == (folder,) and settings.language == "en"
    assert more == {"host": "127.0.0.1", "port": port, "browser": False, "threads": 1}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--models", "{empty}"), "no checkpoint here"),
        (("--models", "/no/such/folder"), "no checkpoint here"),
        (("--run", "{empty}"), "no run folder"),
        (("--model", "{models}/before"), "no classifier"),
        (("--model", "{models}/tuned", "--base", "nope"), "--base nope: no folder"),
        (
            ("--model", "{models}/tuned", "--base", "{models}/score"),
            "tuned cannot be tuned from it",
        ),
        (("--base", "{models}/before"), "needs --model"),
        (("--host", "203.0.113.9"), "cannot listen"),
    ],
)
def test_bad_options_are_refused(refused, served, port, tmp_path, models, options, words):
    places = {"empty": tmp_path, "models": models}
    ended = refused(words, "app", "--port", port, *(text.format(**places) for text in options))
    assert ended.err.count("\n") == 1 and not served


@pytest.mark.parametrize(
    "options",
    [
        ("--model", "{0}/tuned", "--model", "{0}/before,{0}/score"),
        ("--models", "{0}/tuned, {0}/before", "--model", "{0}/score"),
    ],
)
def test_several_models_and_a_base(run, served, port, models, options):
    base = ("--base", str(models / "before"))
    ended = run("app", "--port", str(port), *(text.format(models) for text in options), *base)
    ((settings, _),) = served
    assert ended.status == 0 and settings.base == models / "before"
    assert {model.name for model in settings.models} == {"tuned", "before", "score"}
    assert ended.err == ""  # the encoder is the base


def test_an_encoder_among_models_is_named_and_left_out(run, served, port, models):
    ended = run("app", "--port", str(port), "--model", str(models))
    assert ended.status == 0 and len(served) == 1
    assert ended.err.startswith("before: no classifier") and ended.err.count("\n") == 1


def test_a_missing_streamlit_names_the_extra(refused, served, monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda n: None if n == "streamlit" else real(n)
    )
    refused("pip install 'qt-bert[app]'", "app")
