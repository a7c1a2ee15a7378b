"""Commands whose options are the fields of dataclasses: a family is declared once, its docs are the help."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from functools import cache, wraps
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

import typer

from qt_bert.data.reader import ReaderOptions

app = typer.Typer(
    name="qt-bert",
    help="Explain and shrink the Chinese BERT models that decide whether a title answers a query.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)

DATA, SCORING, TRAINING, STUDY = "Pairs · 数据", "Scoring · 评分", "Training · 训练", "Study · 研究"
SMALLER = "Smaller models · 压缩"


class Without(NamedTuple):
    """`Annotated[Family, Without("limit")]`: a command that does not have these options of a family."""

    fields: tuple[str, ...]


def command(panel: str, name: str | None = None) -> Callable[[Callable[..., None]], Any]:
    """Declare a command; a parameter whose type is a dataclass becomes an option for each field.

    A field's docstring is the help; its metadata may name the `option` (`--no-header`), and give what
    else typer.Option takes (`min`, `rich_help_panel`).
    """

    def declare(function: Callable[..., None]) -> Any:
        hints = get_type_hints(function, include_extras=True)
        families: dict[str, tuple[type, list[str]]] = {}
        parameters = []
        for parameter in inspect.signature(function).parameters.values():
            family, left = _family(hints[parameter.name])
            if family is None:
                parameters.append(
                    parameter.replace(annotation=hints[parameter.name], kind=parameter.KEYWORD_ONLY)
                )
                continue
            own = [option for option in _options(family) if option.name not in left]
            families[parameter.name] = family, [option.name for option in own]
            parameters += own

        @wraps(function)
        def run(**given: Any) -> None:
            for place, (family, names) in families.items():
                given[place] = family(**{one: given.pop(one) for one in names})
            function(**given)

        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {one.name: one.annotation for one in parameters}
        return app.command(name, rich_help_panel=panel)(run)

    return declare


def _family(hint: Any) -> tuple[type | None, tuple[str, ...]]:
    """The dataclass that a parameter is of, and the fields that this command goes without."""
    kind = hint
    left: tuple[str, ...] = ()
    if get_origin(hint) is Annotated:
        kind, *more = get_args(hint)
        left = next((one.fields for one in more if isinstance(one, Without)), ())
    return (kind if is_dataclass(kind) else None), left  # type: ignore[return-value]


def _options(family: type) -> list[inspect.Parameter]:
    hints, found = get_type_hints(family), []
    for one in fields(family):
        facts = dict(one.metadata)
        names = [facts.pop("option")] if "option" in facts else []
        if hints[one.name] is bool and not names:
            names = [f"--{one.name.replace('_', '-')}"]
        option = typer.Option(*names, help=_docs(family)[one.name], **facts)
        default = one.default
        if one.default is MISSING and one.default_factory is not MISSING:
            default = one.default_factory()
        found.append(
            inspect.Parameter(
                one.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=inspect.Parameter.empty if default is MISSING else default,
                annotation=Annotated[hints[one.name], option],
            )
        )
    return found


@cache
def _docs(family: type) -> dict[str, str]:
    """Field → the docstring under it, of a dataclass and of those it extends."""
    found: dict[str, str] = {}
    for kind in reversed(family.__mro__):
        body = _classes(kind.__module__).get(kind.__name__, [])
        for one, following in pairwise(body):
            if isinstance(one, ast.AnnAssign) and isinstance(following, ast.Expr):
                said = following.value
                if isinstance(said, ast.Constant) and isinstance(one.target, ast.Name):
                    found[one.target.id] = " ".join(str(said.value).split())
    return found


@cache
def _classes(module: str) -> dict[str, list[ast.stmt]]:
    path = getattr(sys.modules[module], "__file__", None)
    if path is None or not module.startswith("qt_bert"):
        return {}
    tree = ast.parse(Path(path).read_text(encoding="utf-8"))
    return {one.name: one.body for one in tree.body if isinstance(one, ast.ClassDef)}


# Options that several commands share and that belong to no family.

Reader = Annotated[ReaderOptions, Without(("limit",))]
Pairs = Annotated[
    Path | None,
    typer.Option(help="File of graded pairs. [default: the test split that ships]"),
]
By = Annotated[
    list[str] | None, typer.Option(help="Also by the values of this column (repeatable).")
]
Rejects = Annotated[Path | None, typer.Option(help="List the rejected rows in this file.")]
Device = Annotated[
    str,
    typer.Option(
        help="Where the model runs: auto (a CUDA GPU where there is one), cpu, cuda, cuda:1, mps."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on where an earlier run stopped.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of every random draw.")]
Resamples = Annotated[int, typer.Option(help="Bootstrap resamples of queries.")]
Unlabelled = Annotated[
    list[Path] | None,
    typer.Option(help="File with columns query and title, for what a teacher says of them."),
]
Model = Annotated[
    str | None,
    typer.Option(help="Model folder (or hub name). [default: the graded checkpoint that ships]"),
]
MaxLength = Annotated[
    int | None, typer.Option(help="Tokens a pair may take; the title is cut first.")
]
PlanFile = Annotated[Path, typer.Option(help="The plan.json of `qt-bert plan`.")]
Calibrated = Annotated[
    bool,
    typer.Option("--calibrated", help="Apply what `qt-bert calibrate --save` left in the model."),
]
Calibration = Annotated[
    Path | None,
    typer.Option(help="Apply the calibration in this file of `qt-bert calibrate --out`."),
]
