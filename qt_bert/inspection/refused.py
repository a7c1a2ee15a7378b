"""Input that a page refuses, and says so in the reader's language."""

from __future__ import annotations

from qt_bert.errors import ArgumentError, PairFileError
from qt_bert.results import Text


class RefusedInput(ArgumentError):
    """Something typed, or in a link, that cannot be meant; `said` says it in both languages."""

    def __init__(self, said: Text) -> None:
        super().__init__(said.en)
        self.said = said


class RefusedFile(PairFileError):
    """An uploaded file that cannot be read; `said` says it in both languages."""

    def __init__(self, said: Text) -> None:
        super().__init__(said.en)
        self.said = said
