"""Settings travel by environment, so that `streamlit run` takes them too."""

from __future__ import annotations

from pathlib import Path

import pytest

from qt_bert.app.settings import Settings


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch):
    for name in ("MODELS", "RUN", "BASE", "LANGUAGE"):
        monkeypatch.delenv(f"QT_BERT_APP_{name}", raising=False)


@pytest.mark.parametrize(
    "settings",
    [
        Settings(),
        Settings(models=Path("/a b/模型"), run=Path("/r"), base="pretrained", language="en"),
    ],
)
def test_what_is_written_is_read(settings, monkeypatch):
    for name, value in settings.to_environment().items():
        monkeypatch.setenv(name, value)
    assert Settings.read() == settings


def test_an_unknown_language_is_chinese(monkeypatch):
    monkeypatch.setenv("QT_BERT_APP_LANGUAGE", "<b>")
    assert Settings.read().language == "zh"
