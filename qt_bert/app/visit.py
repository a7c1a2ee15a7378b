"""Who looks at what: the one thing a page asks for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import streamlit as st

from qt_bert.app import opening, session, words
from qt_bert.app.settings import Settings
from qt_bert.app.words import say
from qt_bert.results.text import Label, in_language

if TYPE_CHECKING:
    from qt_bert.inspection.inspected import Inspected
    from qt_bert.inspection.models import Shelf
    from qt_bert.inspection.state import State
    from qt_bert.inspection.studied import Looked, Studied


@dataclass(frozen=True, kw_only=True)
class Here:
    """One run of one visitor's page: the model, the state, the results."""

    settings: Settings
    shelf: Shelf
    model: Inspected
    state: State

    @property
    def language(self) -> str:
        """`zh` or `en`."""
        return self.state.language

    @cached_property
    def base(self) -> Inspected | None:
        """The model before fine-tuning, where the shelf knows it; opened when first asked for."""
        name = self.shelf.base_of(self.state.model)
        return None if name is None else self.shelf.open(name)

    @cached_property
    def looked(self) -> Looked:
        """The stored results on this model, and in words which were refused."""
        return opening.studied_of(self.model, self.settings)

    @property
    def studied(self) -> Studied | None:
        """What the probes found for this model, where it is stored or was computed here."""
        from qt_bert.inspection.studied import computed_here

        return self.looked.studied or computed_here(self.model)

    def text(self, label: Label) -> str:
        """The words of `label` in this visitor's language, whoever calls it, and when."""
        return in_language(label, self.language)

    def change(self, **fields: Any) -> None:
        """Change fields of the state, and with it the address; the script runs anew."""
        session.change(self.shelf, **fields)
        session.write()
        st.rerun()

    def open(self, page: str, **fields: Any) -> None:
        """Change fields of the state, and look at another page, such as `focus`, with it."""
        session.go(self.shelf, page, **fields)

    def stop_if_empty(self) -> None:
        """End the page with a word where query or title is empty."""
        if self.state.empty:
            st.info(say(words.EMPTY), icon=":material/edit:")
            st.stop()

    def no_link(self) -> None:
        """Say that this view rests on an uploaded file, so that no link leads to it."""
        st.caption(say(words.NO_LINK))


def visit() -> Here:
    """This run of this visitor, once the entry has read the address (`arrive`).

    Raises ArgumentError or CheckpointError where the model cannot be opened.
    """
    settings = Settings.read()
    shelf = opening.shelf_of(settings)
    state = session.current()
    return Here(settings=settings, shelf=shelf, model=shelf.open(state.model), state=state)


def arrive(settings: Settings, shelf: Shelf) -> State:
    """Read the address at the start of a run; a first visit shows what the shelf's first model shows."""

    def first() -> State:
        from dataclasses import replace

        from qt_bert.inspection.state import first_state

        model = shelf.open(shelf.names[0])
        state = first_state(shelf, opening.studied_of(model, settings).studied)
        return replace(state, language=settings.language)

    return session.begin(shelf, first)
