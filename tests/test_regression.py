"""What the package computes, held against the numbers in `regression.json`.

`python -m tests.test_regression` writes them anew; the commit that moves a number says why.
"""

import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import qt_bert
from qt_bert.data.reader import read_pairs
from qt_bert.probes.base import probes
from qt_bert.results.probe import ProbeResult
from qt_bert.shipped import GRADED, STUDENT, TEST, shipped
from tests.conftest import write_pairs
from tests.wired import wired_checkpoint, wired_pairs

VALUES = Path(__file__).with_name("regression.json")
PAIRS = 120
"""Of the test split that ships: 24 queries with five titles each."""
HEADS = "L1H2 L3H7 L4H0 L6H5 L8H11"
"""Heads ablated from `graded`: named here, so that no probe's choice moves them."""
EXPLAINED = (
    ("跑步膝盖疼", "一跑起来膝关节就痛，是怎么搞的？"),
    ("北京到上海高铁票价", "上海到北京的高铁票多少钱一张"),
)
UNSTEADY = {"ladder", "features"}
"""Probes of the wired model that rest on ties: its grades take two values, some heads weigh all alike."""

Numbers = dict[str, Any]


def grades() -> Numbers:
    """Expected grades of both models, and of `graded` with heads ablated."""
    texts = [(pair.query, pair.title) for pair in read_pairs(shipped(TEST))[:PAIRS]]
    graded = qt_bert.load()
    models = {"graded": graded, "student": qt_bert.load(shipped(STUDENT))}
    models |= {mode: graded.ablate(HEADS, mode) for mode in ("zero", "uniform", "mean")}
    return {name: model.score(texts)["expected_grade"].tolist() for name, model in models.items()}


def metrics() -> Numbers:
    """Every metric of both models on the test split, with its interval."""
    found = {}
    for model in map(shipped, (GRADED, STUDENT)):
        judged = qt_bert.load(model).evaluate()["metrics"]
        found[model.name] = {
            name: [one["value"], one["ci_low"], one["ci_high"]] for name, one in judged.items()
        }
    return found


def heads() -> Numbers:
    """What each single head out changes, by metric, on the first pairs of the test split."""
    with tempfile.TemporaryDirectory() as folder:
        first = pd.read_csv(shipped(TEST), sep="\t", dtype=str, keep_default_na=False)[:PAIRS]
        first.to_csv(path := Path(folder) / "first.tsv", sep="\t", index=False)
        effects = qt_bert.load().sweep(path)
    return {
        str(metric): dict(zip(rows["name"], rows["absolute"], strict=True))
        for metric, rows in effects.groupby("metric")
    }


def terms() -> Numbers:
    """What each term of two pairs does to their expected grade."""
    found = {}
    for query, title in EXPLAINED:
        explained = qt_bert.load().explain(query, title)
        found[query] = {f"{one.side} {one.start} {one.term}": one.change for one in explained.terms}
    return found


def wired() -> Numbers:
    """Head scores, named heads and measured values of every probe on a model of known wiring."""
    found: Numbers = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = [(pair.query, pair.title, pair.grades[0]) for pair in wired_pairs(72)]
        pairs, model = write_pairs(folder / "pairs.tsv", rows), wired_checkpoint(folder / "model")
        names = [one.name for one in probes() if not one.needs_base and one.name not in UNSTEADY]
        options = {"full": True, "resamples": 200}
        qt_bert.load(model).report(pairs, out=folder / "run", only=names, **options)
        for path in sorted((folder / "run" / "probes").glob("*.json")):
            result = ProbeResult.read(path)
            found[path.stem] = {
                "heads": {one.head: dict(one.scores) for one in result.heads},
                "sets": {name: list(map(str, heads)) for name, heads in result.sets.items()},
                "values": {one.id: one.value for one in (*result.claims, *result.measurements)},
            }
    return found


PARTS: dict[str, Callable[[], Numbers]] = {
    part.__name__: part for part in (grades, metrics, heads, terms, wired)
}


def leaves(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Each number, text or list below a value, with its path."""
    if isinstance(value, dict):
        for key, one in value.items():
            yield from leaves(one, f"{name}/{key}")
    else:
        yield name, value


def same(old: Any, new: Any) -> bool:
    """Whether two values are equal but for what processors round differently."""
    try:
        return np.allclose(old, new, rtol=1e-3, atol=1e-3, equal_nan=True)
    except (TypeError, ValueError):
        return bool(old == new)


def test_a_number_that_moved_is_told():
    assert same([1.0, 2.0], [1.0, 2.0005]) and not same([1.0, 2.0], [1.0, 2.01])
    assert same(["L0H1"], ["L0H1"]) and not same(["L0H1"], ["L0H2"]) and not same(None, 1.0)


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
def test_nothing_moved(part):
    old = json.loads(VALUES.read_text(encoding="utf-8"))[part]
    new = dict(leaves(PARTS[part](), part))
    assert set(old) == set(new)
    assert {name: new[name] for name in old if not same(old[name], new[name])} == {}


if __name__ == "__main__":
    made = {part: dict(leaves(compute(), part)) for part, compute in PARTS.items()}
    VALUES.write_text(json.dumps(made, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
