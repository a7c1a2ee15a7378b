"""Errors a user can act on: what is wrong, where, and what to do.

The command line prints their text and exits with status 2; nothing else ever reaches a user as a
traceback. Each room raises the subclass of its subject.
"""

from __future__ import annotations


class QtBertError(Exception):
    """Base of every error that is the input's fault, not the program's."""


class ArgumentError(QtBertError):
    """An invalid argument, of a command or a function."""


class PairFileError(QtBertError):
    """A file of pairs that cannot be read as asked."""


class CheckpointError(QtBertError):
    """A model folder that cannot be opened, or must not be."""


class RunFolderError(QtBertError):
    """An output folder that holds something else, or a run that cannot go on."""


class EquivalenceError(QtBertError):
    """A check of the program on itself failed: its figures could not be trusted, so the run stops."""
