"""`qt-bert app`: the inspection page. (A module named `app` would hide the package's `app`.)"""

from __future__ import annotations

import importlib.util
import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from qt_bert.cli import options
from qt_bert.cli.terminal import note
from qt_bert.errors import ArgumentError
from qt_bert.request import check_device


class Language(StrEnum):
    """Of a first visit."""

    zh = "zh"
    en = "en"


@options.app.command("app", rich_help_panel=options.STUDY)
def serve(
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            "--models",
            help="Model folder, or a folder of them (repeatable, or separated by commas). "
            "[default: what ships]",
        ),
    ] = None,
    run: Annotated[
        Path | None, typer.Option(help="Run folder of `qt-bert report` whose results are shown.")
    ] = None,
    base: Annotated[
        Path | None, typer.Option(help="Folder of the model before fine-tuning.")
    ] = None,
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port to listen at.")] = 8501,
    host: Annotated[
        str, typer.Option(help="Address to listen at; 0.0.0.0 opens the page to the network.")
    ] = "127.0.0.1",
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Do not open a browser.")
    ] = False,
    language: Annotated[Language, typer.Option(help="Language of the first page.")] = Language.zh,
    device: options.Device = "auto",
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads of torch. [default: one for each core]")
    ] = None,
) -> None:
    """Serve the inspection page: grade a pair, leave heads out, see the effect."""
    if importlib.util.find_spec("streamlit") is None:
        raise ArgumentError("the page needs Streamlit: pip install 'qt-bert[app]'")
    from qt_bert.page import server
    from qt_bert.page.folders import Folders
    from qt_bert.page.settings import Settings
    from qt_bert.run.folder import RunFolder

    check_device(device)
    models = tuple(path for text in model or () for path in _paths(text))
    for name in Folders(models, base).left_out:  # raises what it refuses before the server starts
        note(f"{name}: no classifier, so it is not offered as a model that grades")
    if device not in ("auto", "cpu"):
        from qt_bert.models.devices import open_device

        open_device(device)
    if run is not None:
        RunFolder.read(run)
    server.check_port(host, port)
    settings = Settings(
        models=models,
        run=None if run is None else run.resolve(),
        base=None if base is None else Path(os.path.abspath(base)),
        device=device,
        language=language.value,
    )
    server.serve(settings, host=host, port=port, browser=not no_browser, threads=threads)


def _paths(text: str) -> list[Path]:
    """A folder, or several separated by commas where no folder has the whole text as its name."""
    names = [text] if Path(text).exists() else text.split(",")
    return [Path(os.path.abspath(name.strip())) for name in names if name.strip()]
