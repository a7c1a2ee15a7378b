"""`qt-bert check`, `evaluate`, `compare` and `calibrate`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from qt_bert.cli import options, terminal
from qt_bert.cli.terminal import differences_table, figure, interval, table
from qt_bert.data.reader import ReaderOptions
from qt_bert.errors import ArgumentError
from qt_bert.files import read_json, sha256_file
from qt_bert.request import HeadsOutOptions, LabelOptions, ModelOptions, pairs_or_test
from qt_bert.shipped import DEV, shipped
from qt_bert.text import counted


@options.command(options.DATA)
def check(
    file: Annotated[Path, typer.Argument(help="File of pairs.")],
    reader: options.Reader,
    against: Annotated[
        Path | None, typer.Option(help="Another file: count the queries and pairs both have.")
    ] = None,
    rejects: options.Rejects = None,
    against_columns: Annotated[
        str | None, typer.Option(help="Names of the other file's columns.")
    ] = None,
    shortcuts: Annotated[
        bool,
        typer.Option(
            "--shortcuts",
            help="Predict the labels from titles, queries, or shared characters alone.",
        ),
    ] = False,
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
) -> None:
    """Rows, rejects, grades, lengths, duplicates, what is shared with another file, shortcuts to the labels."""
    if against is None and against_columns is not None:
        raise ArgumentError("--against-columns goes with --against")
    from qt_bert.data.check import check_file

    rows = reader.open(file, rejects_path=rejects)
    other = None
    if against is not None:
        how = ReaderOptions(against_columns, max_rejects=reader.max_rejects)
        if against_columns is None and not reader.no_header:
            how = replace(reader, grades=None).beside(against, labelled=False)
        other = how.open(against)
    report = check_file(rows, other)
    result, text = asdict(report), report.render()
    if shortcuts:
        from qt_bert.scoring.shortcuts import find_shortcuts

        result["shortcuts"] = find_shortcuts(file, reader, seed=seed)
        text += f"\n\n{_shortcuts_text(result['shortcuts'])}"
    typer.echo(json.dumps(result, ensure_ascii=False) if as_json else text)


def _shortcuts_text(result: dict[str, Any]) -> str:
    """A table, a sentence on each source, and the most telling n-grams of titles."""
    from qt_bert.scoring.shortcuts import MOST_FREQUENT

    if "reason" in result:
        return f"shortcuts: not testable here: {result['reason']}"

    def shown(metric: dict[str, Any]) -> str:
        return f"{figure(metric['value'])} {interval(metric)}".rstrip()

    rows: list[tuple[str, ...]] = [("labels predicted from", "accuracy", "macro-F1", "QWK")]
    lines = []
    for source, metrics in result["metrics"].items():
        alone = f"{source} alone" if source in result["gains"] else source
        rows.append((alone, *map(shown, metrics.values())))
    for source, gains in result["gains"].items():
        verdict = "show no gain over"
        if gains["accuracy"]["above"]:
            verdict = "predict the grade better than"
        elif gains["log_loss"]["above"]:
            loss = f"log loss lower by {figure(gains['log_loss']['value'])}"
            verdict = f"predict the odds of the grades ({loss}), but are right no more often than"
        value = shown(result["metrics"][source]["accuracy"])
        guess = figure(result["metrics"][MOST_FREQUENT]["accuracy"]["value"])
        lines.append(
            f"{source} alone {verdict} the {MOST_FREQUENT}: accuracy {value} against {guess}"
        )
    for ngram in result["ngrams"]:
        lines.append(
            f"{ngram['of_grade']:,} of {ngram['n_titles']:,} titles with {ngram['ngram']!r} have grade "
            f"{ngram['grade']} ({100 * ngram['base']:.0f} % of all titles)"
        )
    pairs = f"{result['n_pairs']:,} of {result['n_labelled']:,} labelled pairs"
    head = f"shortcuts: {pairs}, {result['n_queries']:,} queries; 95 % intervals over queries"
    return "\n".join([head, table(rows), *lines])


@options.command(options.SCORING)
def evaluate(
    model: ModelOptions,
    without: HeadsOutOptions,
    labels: LabelOptions,
    reader: options.Reader,
    pairs: options.Pairs = None,
    by: options.By = None,
    auto_slices: Annotated[
        bool,
        typer.Option(
            "--auto-slices",
            help="Error rates by length, shared characters, kind of query, and mismatches, worst first.",
        ),
    ] = False,
    suspects: Annotated[
        Path | None, typer.Option(help="Write the labels that are likely wrong to this file.")
    ] = None,
    trec: Annotated[
        Path | None, typer.Option(help="Write qrels.txt and run.txt for trec_eval to this folder.")
    ] = None,
    errors: Annotated[
        Path | None, typer.Option(help="Write the pairs, largest errors first, to this file.")
    ] = None,
    queries: Annotated[
        Path | None,
        typer.Option(help="Write the queries, sorted by possible NDCG@5 gain, to this file."),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(
            help="Compare with this model, uncalibrated, or column FILE:COLUMN, on the same pairs."
        ),
    ] = None,
    rejects: options.Rejects = None,
    calibrated: options.Calibrated = False,
    calibration: options.Calibration = None,
    resamples: options.Resamples = 2000,
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
) -> None:
    """Accuracy, ordinal, ranking and calibration figures, each with a 95 % interval."""
    path = pairs_or_test(pairs)
    reader.open(path)
    named = {"--suspects": suspects, "--errors": errors, "--queries": queries}
    outputs = {option: out for option, out in named.items() if out is not None}
    for option, out in outputs.items():
        _check_new(option, out, path)
    written = outputs if rejects is None else outputs | {"--rejects": rejects}
    if len({out.resolve() for out in written.values()}) < len(written):
        raise ArgumentError(f"{', '.join(written)}: name a file of its own for each")
    if trec is not None and trec.exists():
        raise ArgumentError(f"--trec {trec} is there already; name another folder or remove it")
    from qt_bert.run.scorers import open_scorer
    from qt_bert.scoring import evaluate as scoring
    from qt_bert.scoring import few_labels
    from qt_bert.scoring.judge import judge_file, requested_calibration
    from qt_bert.stats.metrics import REASONS

    scorer = open_scorer(model, without, reader, notify=terminal.note)
    applied = requested_calibration(scorer, calibration or calibrated)
    if scorer.settings.labels.logits == 1 and applied is None and (suspects or auto_slices):
        raise ArgumentError(
            f"{'--suspects' if suspects else '--auto-slices'}: {REASONS['score'].en}"
        )
    first = replace(model, model=baseline, model_grades=None)
    other = open_scorer(first, None, reader, notify=terminal.note) if baseline else None
    others = [other] if other else []
    reader = labels.read_by(reader)
    judged = judge_file(
        path, reader, scorer, others=others, calibration=applied, rejects_path=rejects, count=labels
    )
    tables = {
        "--suspects": lambda: few_labels.suspects(judged, scorer, path, reader, labels.judge),
        "--errors": lambda: scoring.error_table(judged, scorer, path, reader),
        "--queries": lambda: scoring.query_table(judged),
    }
    rows_of = {option: tables[option]() for option in outputs}
    evaluation = scoring.evaluation_json(
        judged, scorer, path, by=tuple(by or ()), auto_slices=auto_slices, baseline=other, reader=reader,
        count=labels, resamples=resamples, seed=seed,
    )  # fmt: skip
    for option, rows in rows_of.items():
        scoring.write_beside(outputs[option], option, path, reader, rows)
        terminal.note(f"{option}: {len(next(iter(rows.values()))):,} rows: {outputs[option]}")
    if trec is not None:
        relevant = scoring.write_trec(trec, judged, scorer)
        terminal.note(f"qrels.txt and run.txt, relevant from {relevant:g}: {trec}")
    terminal.note_rejects(judged.rejected, rejects)
    for each in (scorer, *others):
        terminal.note_counts(each)
    if unjudged := evaluation["pairs"]["unjudged"]:
        terminal.note(f"{unjudged:,} titles without a label")
    stored = read_json(calibration) if calibration else calibrated and scorer.settings.calibration
    fitted_on = stored.get("pairs") if stored else None
    if isinstance(fitted_on, dict) and fitted_on.get("sha256") == sha256_file(path):
        terminal.note(
            "warning: the calibration was fitted on half of these queries; qt-bert calibrate printed the others'"
        )
    if evaluation["alike"]:
        terminal.note(f"warning: {evaluation['alike']}")
    if as_json:
        typer.echo(json.dumps(_flat(evaluation), ensure_ascii=False))
    else:
        typer.echo(terminal.metrics_table(evaluation))
        if evaluation.get("few_labels"):
            typer.echo("\n" + _few_table(evaluation["few_labels"]))
        if baseline:
            metrics = evaluation["baseline"]["metrics"]
            typer.echo(f"\nbaseline {baseline}:")
            typer.echo(differences_table(metrics, "baseline", "model"))
        if auto_slices:
            typer.echo("\n" + _auto_table(evaluation["auto_slices"]))


def _few_table(few: dict[str, Any], detect: float | None = None) -> str:
    """Figures by people's labels and a judge's beside people's alone, and how many labels a difference needs."""
    needs = [] if detect is None else [f"labels for {detect:g}", "without judge"]
    rows = [["metric", "with judge", "", "people alone", "", "labels", "worth", *needs]]
    shown, reasons = terminal.with_value(few["metrics"])
    if any(facts.get("needs", 0) is None for facts in shown.values()):
        reasons.insert(0, f"–: no number of labels shows it beside so few of {few['judge']}")
    for name, facts in shown.items():
        both = facts, facts["people"]
        values = [text for part in both for text in (figure(part["value"]), interval(part))]
        keys = ("labels", "worth", "needs", "needs_alone")[: 2 + len(needs)]
        counts = [terminal.count(facts.get(key)) for key in keys]
        rows.append([name, *values, *counts])
    labels = f"{few['labels']:,} labels of people ({few['n_queries']:,} queries)"
    rest = f"{few['judged_pairs']:,} more of {few['judge']} ({few['judged_queries']:,} queries)"
    head = (
        f"{labels}, {rest}; worth: labels of people that alone would tell as much; intervals here are studentised, "
        "wider where queries are few"
    )
    return "\n".join([head, table(rows), *reasons])


def _auto_table(slices: list[dict[str, Any]], what: str = "error") -> str:
    rows = [("slice", "n", "queries", what, "rest", "more", "95 % interval", "q")]
    for row in slices:
        counts = (f"{row['n']:,}", f"{row['n_queries']:,}")
        values = (figure(row[name]) for name in ("inside", "outside", "difference"))
        rows.append((row["slice"], *counts, *values, interval(row), figure(row["q"], 4)))
    return table(rows)


def _check_new(option: str, out: Path, pairs: Path) -> None:
    """Raise ArgumentError for an output that exists, is the input or has an unknown suffix."""
    from qt_bert.scoring.tables import growing_table

    if out.resolve() == pairs.resolve():
        raise ArgumentError(f"{option} {out} is the file of pairs itself; name another file")
    growing_table(out, option)
    if out.exists():
        raise ArgumentError(f"{option} {out} is there already; name another file or remove it")


def _flat(evaluation: dict[str, Any]) -> dict[str, Any]:
    """Metrics at the top level, the tables beside them."""
    names = "model pairs mode levels confusion per_grade pnr_counts slices auto_slices few_labels alike guards baseline"
    return evaluation["metrics"] | {
        name: evaluation[name] for name in names.split() if name in evaluation
    }


@options.command(options.SCORING)
def compare(
    model_a: Annotated[
        str, typer.Argument(help="The first model, A; of several seeds A1,A2,A3; or FILE:COLUMN.")
    ],
    model_b: Annotated[
        str, typer.Argument(help="The second model, B; --heads-out leaves heads of B out.")
    ],
    shared: Annotated[ModelOptions, options.Without(("model",))],
    without: HeadsOutOptions,
    labels: LabelOptions,
    reader: options.Reader,
    pairs: options.Pairs = None,
    rejects: options.Rejects = None,
    model_grades_b: Annotated[str | None, typer.Option(help="--model-grades of B.")] = None,
    calibrated: options.Calibrated = False,
    by: options.By = None,
    unlabelled: Annotated[
        Path | None,
        typer.Option(help="Pairs without labels: first titles, order and grades that change."),
    ] = None,
    detect: Annotated[
        float | None,
        typer.Option(help="Estimate how many queries would show a difference of this size."),
    ] = None,
    gate: Annotated[
        Path | None, typer.Option(help="Rules in TOML: exit status 1 where B may not replace A.")
    ] = None,
    most: Annotated[int, typer.Option(help="Pairs shown where the two differ most.")] = 10,
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
) -> None:
    """Paired intervals and tests of every metric, and the pairs where the two differ most."""
    path = pairs_or_test(pairs)
    reader.open(path)
    if unlabelled is not None:
        reader.beside(unlabelled, labelled=False)
    from qt_bert.api import Grader
    from qt_bert.run.scorers import open_scorer, split_seeds
    from qt_bert.scoring.gate import read_gate

    if gate is not None:
        read_gate(gate, pairs is not None or unlabelled is None, unlabelled is not None)  # first
    b = replace(shared, model_grades=model_grades_b)
    sides = [
        [
            open_scorer(replace(how, model=name), heads, reader, notify=terminal.note)
            for name in split_seeds(models)
        ]
        for models, how, heads in ((model_a, shared, None), (model_b, b, without))
    ]
    first, *seeds = map(Grader, sides[0])
    comparison = first.compare(
        [*map(Grader, sides[1])], pairs, seeds=seeds, unlabelled=unlabelled, gate=gate, options=reader,
        by=by or (), detect=detect, most=most, seed=seed, rejects_path=rejects, count=labels,
        calibrated=calibrated,
    )  # fmt: skip
    terminal.note_rejects(comparison.get("rejected", 0), rejects)
    rejected = comparison.get("agreement", {}).get("rejected", 0)
    if rejected and "metrics" in comparison:
        terminal.note(
            f"{unlabelled}: {counted(rejected, 'row')} rejected; without --pairs --rejects lists them"
        )
    else:
        terminal.note_rejects(rejected, rejects)
    for scorer in (*sides[0], *sides[1]):
        terminal.note_counts(scorer)
    if as_json:
        typer.echo(json.dumps(comparison, ensure_ascii=False))
    else:
        typer.echo(f"A = {model_a}\nB = {model_b}{terminal.left_out(sides[1][0].describe())}")
        if "metrics" in comparison:
            _print_comparison(comparison, path, detect)
        if unlabelled is not None:
            typer.echo("\n\n".join(_agreement(comparison["agreement"])))
    if gate is not None:
        _note_gate(comparison["gate"])
        if not comparison["gate"]["passed"]:
            raise typer.Exit(1)


def _print_comparison(comparison: dict[str, Any], path: Path, detect: float | None) -> None:
    typer.echo(f"{path}: {comparison['n_pairs']:,} pairs\n")
    typer.echo(differences_table(comparison["metrics"], "A", "B", detect))
    if "few_labels" in comparison:
        typer.echo("\nB − A: " + _few_table(comparison["few_labels"], detect))
    for column, slices in comparison["slices"].items():
        of = {f"{column} {v}: {n}": facts for v, m in slices.items() for n, facts in m.items()}
        typer.echo("\n" + differences_table(of, "A", "B", detect))
    pairs_rows = [("line", "grade", "A", "B", "query", "title")]
    for pair in comparison["most_different"]:
        shown = (figure(pair["a"], 2), figure(pair["b"], 2))
        pairs_rows.append((str(pair["line"]), pair["grade"], *shown, pair["query"], pair["title"]))
    if len(pairs_rows) > 1:
        typer.echo("\nwhere they differ most (expected grade, or the one score):")
        typer.echo(table(pairs_rows))


def _agreement(result: dict[str, Any]) -> Iterator[str]:
    """The measures of all pairs and of each slice, automatic slices that differ more, queries."""
    from qt_bert.scoring.unlabelled import span

    pairs, n_queries = result["pairs"], result["n_queries"]
    yield f"{pairs['name']}: {pairs['n_pairs']:,} pairs of {n_queries:,} queries, without labels"
    measured, reasons = terminal.with_value(result["metrics"])
    for column, slices in ({"": {"all pairs": result["metrics"]}} | result["slices"]).items():
        rows = [(column, "measure", "value", "95 % interval", "n", "queries", "")]
        for value, measures in slices.items():
            for name in measured:
                metric = measures[name]
                counts = (f"{metric['n']:,}", f"{metric['n_queries']:,}", metric["reason"] or "")
                rows.append((value, name, figure(metric["value"]), interval(metric), *counts))
        yield "\n".join([table(rows, left=2), *reasons])
        reasons = []
    every = [
        row | {"more": row["difference"] / span(row["measure"])} for row in result["auto_slices"]
    ]
    worse = [row for row in every if row["q"] < 0.05 and row["more"] > 0]
    named = [row | {"slice": f"{row['slice']}, {row['measure']}"} for row in worse]
    yield f"automatic slices that differ more than the rest (q < .05 of {len(every)}): {len(worse)}"
    if worse:
        yield _auto_table(named, "inside")
    firsts = [("query", "A", "B", "title (first of A, first of B)")]
    for query in result["queries"]:
        titles = query["titles"]
        for title in dict.fromkeys((0, max(range(len(titles)), key=lambda i: titles[i]["b"]))):
            shown = titles[title]
            firsts.append((query["query"], figure(shown["a"]), figure(shown["b"]), shown["title"]))
    yield "where their ranking differs most:\n" + table(firsts, sentence=True)


def _note_gate(gate: dict[str, Any]) -> None:
    """Print every failed rule and the outcome, for the log of a CI job."""
    from qt_bert.scoring.unlabelled import MEASURES

    failed = [rule for rule in gate["rules"] if rule["reason"]]
    for rule in failed:
        value = f"{figure(rule['change'])} {interval(rule)}".rstrip()
        allowed = f"{rule['margin']:g} allowed: {rule['reason']}"
        if rule["what"].split(",")[0] not in MEASURES:
            value, allowed = f"B − A {value}", f"loss {allowed}"
        terminal.note(f"{rule['what']}: {value}, {allowed}")
    answer = "B may not replace A" if failed else "B may replace A"
    terminal.note(f"gate: {answer}: {len(failed)} of {len(gate['rules'])} rules failed")


@options.command(options.SCORING)
def calibrate(
    model: ModelOptions,
    reader: options.Reader,
    pairs: Annotated[
        Path | None, typer.Option(help="Graded pairs. [default: the dev split that ships]")
    ] = None,
    method: Annotated[str, typer.Option(help="For one logit: platt or isotonic.")] = "platt",
    precision: Annotated[
        float | None, typer.Option(help="Choose the lowest cut with this precision.")
    ] = None,
    recall: Annotated[
        float | None, typer.Option(help="Choose the highest cut with this recall.")
    ] = None,
    by: options.By = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Write the calibration to this JSON file, for --calibration."),
    ] = None,
    save: Annotated[
        bool, typer.Option("--save", help="Store it in the model, for --calibrated.")
    ] = False,
    rejects: options.Rejects = None,
    resamples: options.Resamples = 2000,
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
) -> None:
    """Fit probabilities, a cut (of the best F1) and grades to one logit, or a temperature and cut-offs to several.

    Fitted on half of the queries, compared before and after on the others; saved by --out or --save.
    """
    path = pairs if pairs is not None else shipped(DEV)
    reader.open(path)
    from qt_bert.run.scorers import open_scorer
    from qt_bert.scoring.calibrate import calibrate_model

    scorer = open_scorer(model, None, reader, notify=terminal.note)
    result = calibrate_model(
        path, reader, scorer, method=method, precision=precision, recall=recall, by=by or (), out=out,
        save=save, resamples=resamples, seed=seed, rejects_path=rejects,
    )  # fmt: skip
    terminal.note_counts(scorer)
    typer.echo(json.dumps(result, ensure_ascii=False) if as_json else _calibration_text(result))
    for line in result["warnings"]:
        terminal.note(f"warning: {line}")
    if out is None and not save:
        terminal.note("not saved: give --out FILE or --save")


def _calibration_text(result: dict[str, Any]) -> str:
    """The cuts, then before and after, of all pairs and of each slice; the grades."""
    calibration, every = result["calibration"], {"": result}
    for column, slices in result["slices"].items():
        every |= {f"{column} {value}: ": figures for value, figures in slices.items()}
    cuts, changes = (
        {
            where + name: metric
            for where, figures in every.items()
            for name, metric in figures[part].items()
        }
        for part in ("cuts", "changes")
    )

    def values(head: str, metrics: Mapping[str, Any]) -> str:
        rows = [(head, "", "95 % interval", "")]
        for name, metric in metrics.items():
            rows.append(
                (name, figure(metric["value"]), interval(metric), metric.get("reason") or "")
            )
        return table(rows)

    tables = [values("cut: score from", cuts)] if cuts else []
    tables.append(values("grades after", result["grades"]))
    fitted = f"fitted on {result['pairs']['fitted']:,} pairs, shown on {result['n_pairs']:,} others"
    if "temperature" in calibration:
        cutoffs = (
            ", ".join(f"{cut:.3f}" for cut in calibration["cutoffs"]) or "none (coarse labels)"
        )
        fitted += f": temperature {calibration['temperature']:.3f}; cut-offs {cutoffs}"
    before = f"before: the score read as {result['before']}\n" if result["before"] else ""
    changed = before + differences_table(changes, "before", "after")
    return "\n\n".join((fitted, *tables, changed))


@options.command(options.DATA)
def agree(
    file: Annotated[Path, typer.Argument(help="File of pairs with a column of grades per rater.")],
    raters: Annotated[
        str,
        typer.Option(help="The raters' columns, of this or another file: 人工,LLM,llm.tsv:grade."),
    ],
    reader: Annotated[ReaderOptions, options.Without(("limit", "no_header"))],
    by: options.By = None,
    next: Annotated[
        int | None, typer.Option(help="Draw about so many pairs for the first rater to label.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The file of --next, with drawn_p.")] = None,
    rejects: options.Rejects = None,
    resamples: options.Resamples = 2000,
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
) -> None:
    """Agreement of raters, such as people and an LLM: κ, Krippendorff's α, bias, the pairs furthest apart."""
    from qt_bert.scoring.agreement import agree as measure

    names = [name.strip() for name in raters.split(",")]
    if (next is None) != (out is None):
        raise ArgumentError("--next N and --out FILE go together")
    if next is not None and out is not None:
        from qt_bert.scoring.evaluate import write_beside
        from qt_bert.scoring.few_labels import draw_next

        _check_new("--out", out, file)
        drawn, rows = draw_next(file, names, reader, next, seed=seed)
        write_beside(out, "--out", file, reader, rows)
        text = f"{names[0]}: label the first {drawn['pairs']:,} rows ({drawn['queries']:,} queries) of {out}"
        typer.echo(json.dumps(drawn) if as_json else text)
        return
    result = measure(
        file, names, reader, by=by or (), resamples=resamples, seed=seed, rejects_path=rejects
    )
    terminal.note_rejects(result["rejected"], rejects)
    typer.echo(json.dumps(result, ensure_ascii=False) if as_json else "\n\n".join(_shown(result)))


def _shown(result: Mapping[str, Any]) -> Iterator[str]:
    yield _figures(result["pairs"]["name"], {"all pairs": result})
    for two in result["between"]:
        rows = [(f"{two['a']} ↓ {two['b']} →", *result["labels"], "bias")]
        for label, counts in zip(result["labels"], two["confusion"], strict=True):
            rows.append((label, *map(str, counts), _cell(two["bias_by_label"].get(label))))
        yield table(rows)
    for column, slices in result["slices"].items():
        yield _figures(column, slices)
    if result["furthest"]:
        rows = [("line", *result["furthest"][0]["labels"], "query", "title")]
        for pair in result["furthest"]:
            labels = (label or "–" for label in pair["labels"].values())
            rows.append((str(pair["line"]), *labels, pair["query"], pair["title"]))
        yield "furthest apart:\n" + table(rows)


def _figures(column: str, slices: Mapping[str, Any]) -> str:
    """A row for all raters and for every two of each slice, figures with their intervals."""
    rows: list[tuple[str, ...]]
    rows = [(column, "raters", "n", "α", "κ", "quadratic κ", "within one", "bias (b − a)")]
    for value, measured in slices.items():
        rows.append((value, "all", "", _cell(measured["alpha"]), "", "", "", ""))
        for two in measured["between"]:
            cells, n = map(_cell, two["metrics"].values()), two["metrics"]["kappa"]["n"]
            rows.append((value, f"{two['a']}, {two['b']}", f"{n:,}", "", *cells))
    return table(rows, left=2)


def _cell(measured: dict[str, Any] | None) -> str:
    return f"{figure(measured['value'], 2)} {interval(measured, 2)}" if measured else ""
