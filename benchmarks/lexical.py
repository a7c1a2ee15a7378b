"""The lexical baseline: trained on the same pairs as a model, judged on the same test file.

    python benchmarks/lexical.py --recipe RECIPE.toml --data FOLDER --dev DEV --test TEST
    python benchmarks/lexical.py --train data/pairs/train.tsv --dev data/pairs/dev.tsv \
        --test data/pairs/test.tsv --scored scored.tsv

`--scored` is what `qt-bert score TEST --out scored.tsv` wrote for the neural model; both are then
compared pair by pair. Sources of the recipe with an auxiliary output are left out.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np

from qt_bert.baselines import (
    Labelled,
    LexicalFeatures,
    fit_best,
    word_segmenter,
)
from qt_bert.cli.show import figure, interval, table
from qt_bert.errors import ArgumentError, PairFileError, QtBertError
from qt_bert.evaluation import Judgements, compare, evaluate, judge_grades
from qt_bert.files import write_json
from qt_bert.pairs import GRADES, GradeMap, Pair, read_pairs
from qt_bert.training.recipes import load_recipe
from qt_bert.training.sources import PairSource

SHOWN = ("accuracy", "macro_f1", "qwk", "mae", "spearman", "ndcg_at_5")


def main(arguments: list[str] | None = None) -> None:
    """Train, evaluate, compare, print; an input's fault is one line and exit status 2."""
    asked = _parse(arguments)
    try:
        found = run(asked)
        if asked.json is not None:
            write_json(asked.json, found)
    except (QtBertError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


def run(asked: argparse.Namespace) -> dict[str, Any]:
    """What `--json` stores; the tables are printed on the way."""
    sources = _sources(asked.recipe, asked.data, asked.train)
    counts, pairs, weights = _read_sources(sources)
    dev, test = _graded(asked.dev), _graded(asked.test)
    features = LexicalFeatures.fit(_texts(pairs), word_segmenter())
    train = _labelled(features, pairs, np.array(weights))
    model, dev_qwk = fit_best(train, _labelled(features, dev))
    lexical = _judge(model.predict_proba(features.table(_texts(test))), test)
    metrics = evaluate(lexical).to_json()
    print(f"{len(pairs):,} training pairs; l2 {model.l2:g} (dev QWK {dev_qwk[model.l2]:.3f})")
    print(f"{asked.test}: {len(test):,} pairs, {lexical.n_queries:,} queries\n")
    print(_metrics_table(metrics))
    found = {
        "schema": 1,
        "train": counts,
        "dev_qwk_by_l2": {f"{l2:g}": qwk for l2, qwk in dev_qwk.items()},
        "features": list(features.names),
        "model": model.to_json(),
        "metrics": metrics,
    }
    if asked.scored is None:
        return found
    return found | {"comparison": _compare(lexical, _judge(_read_scored(asked.scored, test), test))}


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--recipe", type=Path, help="a training recipe (TOML); its [[pairs]] train")
    parser.add_argument("--data", type=Path, default=Path("."), help="the recipe's data folder")
    parser.add_argument("--train", type=Path, nargs="+", default=[], help="graded files, 1-5")
    parser.add_argument("--dev", type=Path, required=True, help="graded file that chooses the L2")
    parser.add_argument("--test", type=Path, required=True, help="graded file to judge on")
    parser.add_argument("--json", type=Path, help="write figures and model to this file")
    parser.add_argument("--scored", type=Path, help="the test file as `qt-bert score` wrote it")
    return parser.parse_args(arguments)


def _sources(recipe: Path | None, data: Path, files: list[Path]) -> list[PairSource]:
    in_recipe: list[PairSource] = load_recipe(recipe, data).pairs if recipe else []
    for source in in_recipe:
        if source.auxiliary:
            print(f"left out: {source.file.name}, which trains the output {source.auxiliary!r}")
    sources = [source for source in in_recipe if not source.auxiliary]
    sources += [PairSource(file) for file in files]
    if not sources:
        raise ArgumentError("nothing to train on; give --recipe with graded pairs, or --train")
    return sources


def _read_sources(
    sources: list[PairSource],
) -> tuple[list[dict[str, Any]], list[Pair], list[float]]:
    """How many pairs each source gave, all of them, and the weight of each."""
    counts: list[dict[str, Any]] = []
    pairs: list[Pair] = []
    weights: list[float] = []
    for source in sources:
        read = source.read()
        for pair in read:
            if pair.grades is None:
                raise PairFileError(
                    f"{source.file}, line {pair.line}: label {pair.label!r} is no grade; say "
                    "what it means with `grades` in the recipe"
                )
        print(f"{source.file.name}: {len(read):,} pairs, weight {source.weight:g}")
        counts.append({"file": source.file.name, "pairs": len(read), "weight": source.weight})
        pairs += read
        weights += [source.weight] * len(read)
    return counts, pairs, weights


def _graded(path: Path) -> list[Pair]:
    return read_pairs(path, grade_map=GradeMap.identity(), grade_required=True)


def _texts(pairs: list[Pair]) -> list[tuple[str, str]]:
    return [(pair.query, pair.title) for pair in pairs]


def _labelled(
    features: LexicalFeatures, pairs: list[Pair], weights: np.ndarray | None = None
) -> Labelled:
    return Labelled(features.table(_texts(pairs)), [pair.grades or () for pair in pairs], weights)


def _judge(probabilities: np.ndarray, pairs: list[Pair]) -> Judgements:
    sets, queries = [pair.grades or () for pair in pairs], [pair.query for pair in pairs]
    return judge_grades(probabilities, sets, queries)


def _read_scored(path: Path, test: list[Pair]) -> np.ndarray:
    """The probabilities of the grades [n, 5]; rows must be those of the test file, in its order."""
    scored = read_pairs(path)
    if len(scored) != len(test):
        raise PairFileError(f"{path}: {len(scored):,} rows for {len(test):,} graded test pairs")
    for row, pair in zip(scored, test, strict=True):
        if _one_line(row.query, row.title) != _one_line(pair.query, pair.title):
            raise PairFileError(f"{path}, line {row.line}: not the test file's line {pair.line}")
    try:
        return np.array([[float(row.extra[f"p_{g}"]) for g in GRADES] for row in scored])
    except (KeyError, ValueError) as error:
        raise PairFileError(f"{path}: no numbers in the columns p_1 to p_5 ({error})") from error


def _one_line(*texts: str) -> list[str]:
    """Texts as a scored TSV has them: without tabs and line breaks."""
    return [text.translate({9: " ", 10: " ", 13: " "}) for text in texts]


def _metrics_table(metrics: dict[str, Any]) -> str:
    rows = [("lexical baseline", "value", "95 % interval")]
    rows += [(name, figure(metrics[name]["value"]), interval(metrics[name])) for name in SHOWN]
    return table(rows)


def _compare(lexical: Judgements, model: Judgements) -> dict[str, Any]:
    """Print and give the paired differences, model − lexical."""
    found = compare(lexical, model, metrics=SHOWN, most_different=0).to_json()
    rows = [["paired comparison", "lexical", "model", "model − lexical", "95 % interval", "p"]]
    for name in SHOWN:
        one = found[name]
        values = [figure(one[key]) for key in ("value_a", "value_b", "difference")]
        rows.append([name, *values, interval(one), figure(one["p"], 4)])
    print(f"\n{table(rows)}")
    return {name: found[name] for name in (*SHOWN, "settings")}


if __name__ == "__main__":
    main()
