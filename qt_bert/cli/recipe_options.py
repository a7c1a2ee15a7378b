"""What `train` and `distill` share: a recipe's values under those given, and the file that judges."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qt_bert.training.recipes import Recipe
    from qt_bert.training.sources import PairSource


def recipe_of(recipe: Path | None, data: Path) -> Recipe:
    """The recipe in a file, or an empty one."""
    from qt_bert.training.recipes import Recipe, load_recipe

    return load_recipe(recipe, data) if recipe else Recipe()


def dev_of(
    stored: Recipe,
    dev: Path | None,
    columns: str,
    grades: str,
    *,
    no_header: bool,
    max_rejects: float,
) -> PairSource | None:
    """The file given by `--dev`, else the recipe's."""
    from qt_bert.training.sources import PairSource

    if dev is None:
        return stored.dev
    return PairSource(
        dev, columns=columns, grades=grades, no_header=no_header, max_rejects=max_rejects
    )


def over(stored: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """The recipe's values under those given on the command line."""
    return stored | {name: value for name, value in given.items() if value is not None}
