"""Names that the redundancy study's claims share."""

from __future__ import annotations

from qt_bert.text import Text

ARTICLE = "heads_of_query_title_bert"
SECRETS = "dark_secrets_of_bert"


def id_of(name: str) -> str:
    """A finding's id, which is unique over all probes of a report."""
    return f"redundancy.{name}"


def of_metric(name: Text) -> str:
    """The metric's English name within a sentence."""
    return name.en[:1].lower() + name.en[1:]
