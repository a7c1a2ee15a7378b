"""The command line, for processes of their own."""

from __future__ import annotations

import sys

QT_BERT = (sys.executable, "-c", "from qt_bert.cli import main; main()")
"""`qt-bert` of this interpreter, whether it is installed as a command or not."""
