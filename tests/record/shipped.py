"""What the commands say of the checkpoints that ship, on the first queries of the test split."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

from tests.record.make import ROOT, Value, cleaned, columns, command, store

GRADED, STUDENT = (ROOT / "data" / "checkpoints" / name for name in ("graded", "student"))
TEST, DEV = (ROOT / "data" / "pairs" / f"{name}.tsv" for name in ("test", "dev"))
QUERIES = 24
"""Whole queries that are scored and swept, with five titles each."""
HEADS = "L1H2 L3H7 L4H0 L6H5 L8H11"
"""Heads left out of the graded model: named here, so that no probe's choice moves them."""
STUDENT_HEADS = "L0H2 L1H7 L3H4"
MODES = ("zero", "mean", "uniform")
EXPLAINED = (
    ("跑步膝盖疼", "一跑起来膝关节就痛，是怎么搞的？"),
    ("北京到上海高铁票价", "上海到北京的高铁票多少钱一张"),
)


def score(into: Path, work: Path) -> None:
    """Probabilities and expected grades of both models, whole and with heads out."""
    pairs, found = first_queries(work), {}
    for name, model, heads in (("graded", GRADED, HEADS), ("student", STUDENT, STUDENT_HEADS)):
        found[name] = {"whole": _scored(pairs, work, model)}
        for mode in MODES:
            out = ("--heads-out", heads, "--mode", mode, "--reference", DEV)
            found[name][mode] = _scored(pairs, work, model, *out)
    store(into / "score.json", found)


def evaluate(into: Path, work: Path) -> None:
    """Every metric with its interval, on the whole test split."""
    found = {"graded": _evaluated(GRADED), "student": _evaluated(STUDENT)}
    for mode in MODES:
        out = ("--heads-out", HEADS, "--mode", mode, "--reference", DEV)
        found[f"graded_{mode}"] = _evaluated(GRADED, *out)
    store(into / "evaluate.json", found)


def compare(into: Path, work: Path) -> None:
    """Differences of every metric with their tests, and every pair's expected grades."""
    rows = len(TEST.read_text(encoding="utf-8").splitlines())
    made = command(
        *("compare", GRADED, STUDENT, "--pairs", TEST, "--most", rows, "--seed", 0, "--json")
    )
    found = cleaned(json.loads(made.out))
    pairs = columns(found.pop("most_different"), "id")
    found["pairs"] = {name: pairs[name] for name in ("id", "a", "b")}
    store(into / "compare.json", found)


def explain(into: Path, work: Path) -> None:
    """What each term and each head of two pairs does to their grade."""
    found: dict[str, Value] = {}
    for query, title in EXPLAINED:
        made = cleaned(
            json.loads(command("explain", query, title, "--model", GRADED, "--json").out)
        )
        for name, by in (("terms", ("side", "start")), ("heads", ("head",))):
            rows = [{"name": ":".join(str(row[key]) for key in by)} | row for row in made[name]]
            made[name] = columns(rows, "name")
        if restoring := made.get("restoring"):
            restoring["heads"] = columns(restoring["heads"], "head")
        found[f"{query} | {title}"] = made
    store(into / "explain.json", found)


def sweep(into: Path, work: Path) -> None:
    """Logits [variant, pair, grade] without each single head, and what that changes."""
    out = work / "sweep"
    command(
        *("sweep", "--out", out, "--model", GRADED, "--pairs", first_queries(work)),
        *("--masks", "single", "--mode", "zero", "--seed", 0),
    )
    effects = read_csv(out / "effects.csv")
    found: dict[str, Value] = {
        "variants": [row["name"] for row in read_csv(out / "variants.csv")],
        "pairs": [row["id"] for row in read_csv(out / "pairs.csv")],
        "effects": {},
    }
    for metric in dict.fromkeys(row["metric"] for row in effects):
        of_metric = [row for row in effects if row["metric"] == metric]
        found["effects"][metric] = {
            name: [number(row[name]) for row in of_metric]
            for name in of_metric[0]
            if name != "metric"
        }
    store(into / "sweep.json", found)
    (into / "sweep.logits.npy").write_bytes((out / "logits.npy").read_bytes())


def first_queries(work: Path) -> Path:
    """A file of the first QUERIES queries of the test split, all their titles."""
    header, *lines = TEST.read_text(encoding="utf-8").splitlines(keepends=True)
    query = header.split("\t").index("query")
    kept = list(dict.fromkeys(line.split("\t")[query] for line in lines))[:QUERIES]
    path = work / "first.tsv"
    path.write_text(
        header + "".join(line for line in lines if line.split("\t")[query] in kept),
        encoding="utf-8",
    )
    return path


def read_csv(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def number(text: str) -> Value:
    """A number where the text is one, nothing for an empty one."""
    try:
        return float(text) if text else None
    except ValueError:
        return text


def _scored(pairs: Path, work: Path, model: Path, *options: Any) -> Value:
    out = work / "scores.jsonl"
    command("score", pairs, "--out", out, "--overwrite", "--model", model, *options)
    rows = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    made = [name for name in rows[0] if name.startswith("p_") or name.endswith("_grade")]
    return {name: [number(str(row[name])) for row in rows] for name in ("id", *made)}


def _evaluated(model: Path, *options: Any) -> Value:
    asked = ("evaluate", "--pairs", TEST, "--model", model, *options)
    return cleaned(json.loads(command(*asked, "--resamples", 2000, "--seed", 0, "--json").out))
