"""Commands whose options are the fields of dataclasses: each is declared once, its docstring is the help."""

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
from qt_bert.request import SEED, ModelOptions, Request, from_options, options_of

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
    """`Annotated[Family, Without(("limit",))]`: the options of a dataclass without these."""

    fields: tuple[str, ...]


def command(panel: str) -> Callable[[Callable[..., None]], Any]:
    """Declare a command in a panel of the help; a parameter that is a dataclass becomes its `options_of`.

    A field's docstring is the help; its metadata may name the `option` (`--no-header`), and hold further
    arguments of typer.Option (`min`, `rich_help_panel`).
    """

    def declare(function: Callable[..., None]) -> Any:
        hints = get_type_hints(function, include_extras=True)
        families: dict[str, tuple[type, list[str]]] = {}
        parameters = []
        for parameter in inspect.signature(function).parameters.values():
            family, without = _family(hints[parameter.name])
            if family is None:
                parameters.append(
                    parameter.replace(annotation=hints[parameter.name], kind=parameter.KEYWORD_ONLY)
                )
                continue
            kinds = {name: kind for name, kind in options_of(family).items() if name not in without}
            families[parameter.name] = family, list(kinds)
            parameters += [_option(kind, name) for name, kind in kinds.items()]

        @wraps(function)
        def run(**values: Any) -> None:
            for parameter, (family, names) in families.items():
                values[parameter] = from_options(family, {name: values.pop(name) for name in names})
            function(**values)

        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {option.name: option.annotation for option in parameters}
        return app.command(rich_help_panel=panel)(run)

    return declare


def _family(hint: Any) -> tuple[type | None, tuple[str, ...]]:
    """The dataclass of a parameter, and the options that this command does not have."""
    kind = hint
    without: tuple[str, ...] = ()
    if get_origin(hint) is Annotated:
        kind, *more = get_args(hint)
        without = next((item.fields for item in more if isinstance(item, Without)), ())
    return (kind if is_dataclass(kind) else None), without  # type: ignore[return-value]


def _option(family: type, name: str) -> inspect.Parameter:
    """A field of a dataclass as the parameter of a command."""
    (declared,) = (field for field in fields(family) if field.name == name)
    hint, settings = get_type_hints(family)[name], dict(declared.metadata)
    flags = [settings.pop("option")] if "option" in settings else []
    if hint is bool and not flags:
        flags = [f"--{name.replace('_', '-')}"]
    default = declared.default
    if default is MISSING and declared.default_factory is not MISSING:
        default = declared.default_factory()
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if default is MISSING else default,
        annotation=Annotated[hint, typer.Option(*flags, help=docs_of(family)[name], **settings)],
    )


@cache
def docs_of(family: type) -> dict[str, str]:
    """Field → the docstring under it, of a dataclass and of those it extends."""
    docs: dict[str, str] = {}
    for kind in reversed(family.__mro__):
        body = _classes(kind.__module__).get(kind.__name__, [])
        for statement, following in pairwise(body):
            if isinstance(statement, ast.AnnAssign) and isinstance(following, ast.Expr):
                text = following.value
                if isinstance(text, ast.Constant) and isinstance(statement.target, ast.Name):
                    docs[statement.target.id] = " ".join(str(text.value).split())
    return docs


@cache
def _classes(module: str) -> dict[str, list[ast.stmt]]:
    path = getattr(sys.modules[module], "__file__", None)
    if path is None or not module.startswith("qt_bert"):
        return {}
    tree = ast.parse(Path(path).read_text(encoding="utf-8"))
    return {node.name: node.body for node in tree.body if isinstance(node, ast.ClassDef)}


# Options that several commands share, where they do not take the dataclass whole.

Reader = Annotated[ReaderOptions, Without(("limit",))]
Pairs = Annotated[Path | None, typer.Option(help=docs_of(Request)["pairs"])]
By = Annotated[
    list[str] | None, typer.Option(help="Also by the values of this column (repeatable).")
]
Rejects = Annotated[Path | None, typer.Option(help="List the rejected rows in this file.")]
Device = Annotated[str, typer.Option(help=docs_of(ModelOptions)["device"])]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on where an earlier run stopped.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")]
Seed = Annotated[int, typer.Option(min=SEED["min"], max=SEED["max"], help=docs_of(Request)["seed"])]
Resamples = Annotated[int, typer.Option(help=docs_of(Request)["resamples"])]
Unlabelled = Annotated[
    list[Path] | None, typer.Option(help="File with columns query and title that a teacher grades.")
]


def _only(*names: str) -> Without:
    """`Without` all options of a model but these."""
    return Without(tuple(o.name for o in fields(ModelOptions) if o.name not in names))


Model = Annotated[ModelOptions, _only("model", "device", "token_types")]
ModelWithGrades = Annotated[ModelOptions, _only("model", "device", "token_types", "model_grades")]
TokenTypes = Annotated[ModelOptions, _only("token_types")]
MaxLength = Annotated[int | None, typer.Option(help=docs_of(ModelOptions)["max_length"])]
PlanFile = Annotated[
    Path | None, typer.Option(help="The frontier.json or plan.json of `qt-bert plan`.")
]
OfFrontier = Annotated[
    str | None, typer.Option(help="Shape of the frontier, layers=4,units=0.5 (of a frontier.json).")
]
Calibrated = Annotated[
    bool,
    typer.Option("--calibrated", help="Apply what `qt-bert calibrate --save` left in the model."),
]
Calibration = Annotated[
    Path | None,
    typer.Option(help="Apply the calibration in this file of `qt-bert calibrate --out`."),
]
