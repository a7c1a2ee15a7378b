"""The words of the report: `words.toml`, each text in Chinese and in English."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from qt_bert.text import Text


def wording(name: str, /, **facts: Any) -> Text:
    """The text `name`, its fields filled from `facts`, of which bilingual ones are localised.

    Raises KeyError where there is no such text, or a field has no fact.
    """
    texts = _texts()[name]
    return Text(*(_filled(texts[language], facts, language) for language in ("zh", "en")))


def _filled(template: str, facts: dict[str, Any], language: str) -> str:
    plain = {name: getattr(value, language, value) for name, value in facts.items()}
    return template.format(**plain)


@cache
def _texts() -> dict[str, dict[str, str]]:
    path = Path(__file__).with_name("words.toml")
    texts: dict[str, dict[str, str]] = tomllib.loads(path.read_text(encoding="utf-8"))
    return texts
