"""jieba, brought up so that it neither warns, chatters, nor trusts a shared folder."""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import sys
import tempfile
import warnings
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any


def load_jieba() -> Any:
    """A new, initialised `jieba.Tokenizer`, apart from the one that other code may change."""
    jieba = _import_quietly()
    tokenizer = jieba.Tokenizer()
    tokenizer.tmp_dir = str(_private_cache(f"jieba-{jieba.__version__}"))
    tokenizer.initialize()
    return tokenizer


def load_tagger(tokenizer: Any) -> Any:
    """jieba's part-of-speech tagger over a `jieba.Tokenizer` of its own dictionary."""
    untouched = "jieba.posseg" not in sys.modules
    posseg = _import_quietly("jieba.posseg")
    if not untouched:
        return posseg.POSTokenizer(tokenizer)
    # The import has just read the dictionary, half a second's work that need not be done again.
    tagger = posseg.POSTokenizer.__new__(posseg.POSTokenizer)
    tagger.tokenizer, tagger.word_tag_tab = tokenizer, dict(posseg.dt.word_tag_tab)
    return tagger


def _import_quietly(name: str = "jieba") -> Any:
    with warnings.catch_warnings():
        # Invalid escapes in jieba's sources, and its use of pkg_resources.
        warnings.simplefilter("ignore")
        jieba = import_module("jieba")
        asked = import_module(name)
    jieba.setLogLevel(logging.WARNING)
    return asked


@cache
def _private_cache(name: str) -> Path:
    """A folder of this user alone: jieba unmarshals what it finds there."""
    try:
        base = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
        folder = (Path(base) if base else Path.home() / ".cache") / "qt_bert" / name
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
        if os.access(folder, os.W_OK):
            return folder
    except (OSError, RuntimeError):
        pass
    folder = Path(tempfile.mkdtemp(prefix="qt_bert-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
