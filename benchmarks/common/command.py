"""The command line, for child processes."""

from __future__ import annotations

import sys

QT_BERT = (sys.executable, "-c", "from qt_bert.cli import main; main()")
"""`qt-bert` in this interpreter."""
