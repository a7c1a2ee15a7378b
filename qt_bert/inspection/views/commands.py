"""The commands that do for a whole file what the page does for a part of it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from qt_bert.encoder.heads import Head, spell
from qt_bert.errors import ArgumentError
from qt_bert.inspection.inspected import Inspected
from qt_bert.pairs import ReaderOptions
from qt_bert.shipped import GRADED, shipped


def evaluate_command(
    inspected: Inspected, name: str | None, options: ReaderOptions, seed: int = 0
) -> str:
    """`qt-bert evaluate` on the file called `name` (None: the test split that ships)."""
    model = _option("--model", inspected)
    return shlex.join(["qt-bert", "evaluate", *model, *_asked(name, options, seed)])


def compare_command(
    inspected: Inspected,
    name: str | None,
    options: ReaderOptions,
    out: Sequence[Head],
    mode: str,
    seed: int = 0,
) -> str:
    """`qt-bert compare` of the model with itself, the heads `out` left out of the second."""
    folder = str(_folder(inspected))
    heads = ["--heads-out", spell(out), *([] if mode == "zero" else ["--mode", mode])]
    return shlex.join(["qt-bert", "compare", folder, folder, *_asked(name, options, seed), *heads])


def study_commands(inspected: Inspected, run: str = "run") -> tuple[str, str]:
    """`qt-bert report` into the folder `run`, and the page on what it found."""
    return (
        shlex.join(["qt-bert", "report", *_option("--model", inspected), "--out", run]),
        shlex.join(["qt-bert", "app", *_option("--models", inspected), "--run", run]),
    )


def cases_command(inspected: Inspected, name: str) -> str:
    """`qt-bert probe behaviour` on the cases in the file called `name`."""
    model = _option("--model", inspected)
    return shlex.join(["qt-bert", "probe", "behaviour", *model, "--cases", name])


def _option(name: str, inspected: Inspected) -> list[str]:
    """The option that names this model; nothing for the one that commands take anyway."""
    folder = _folder(inspected)
    return [] if _is_default(folder) else [name, str(folder)]


def _asked(name: str | None, options: ReaderOptions, seed: int) -> list[str]:
    given = {
        "--pairs": name,
        "--columns": options.columns,
        "--grades": options.grades,
        "--max-rejects": None
        if options.max_rejects == ReaderOptions().max_rejects
        else f"{options.max_rejects:g}",
        "--seed": str(seed) if seed else None,
    }
    words = [
        word for option, value in given.items() if value is not None for word in (option, value)
    ]
    return [*words, *(["--no-header"] if options.no_header else [])]


def _folder(inspected: Inspected) -> Path:
    """The model's folder, as short as it can be written from here."""
    folder = Path(inspected.scorer.checkpoint.folder).resolve()
    here = Path.cwd()
    return folder.relative_to(here) if folder.is_relative_to(here) else folder


def _is_default(folder: Path) -> bool:
    try:
        return folder.resolve() == shipped(GRADED).resolve()
    except ArgumentError:
        return False
