"""Errors a user can act on: what is wrong, where, and what to do.

The command line prints their text and exits with status 2.
"""

from __future__ import annotations


class QtBertError(Exception):
    """Base of the errors that the input causes."""


class ArgumentError(QtBertError):
    """An invalid argument, of a command or a function."""


class PairFileError(QtBertError):
    """A file of pairs that cannot be read with these options."""


class CheckpointError(QtBertError):
    """A model folder that cannot or must not be opened."""


class RunFolderError(QtBertError):
    """An output folder that holds something else, or a run that cannot be resumed."""


class EquivalenceError(QtBertError):
    """An equivalence check failed, so that results would be wrong."""
