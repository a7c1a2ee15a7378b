"""Titles read before the query comes, in tables and in a few sentences."""

from __future__ import annotations

from collections.abc import Iterator

from qt_bert.figures import Curve, Point, Series
from qt_bert.report.blocks import Badge, Block, Column, FigureBlock, Prose, Table
from qt_bert.report.plan_summary import change, change_in_words, metric_name, ratio
from qt_bert.report.words import say
from qt_bert.results.plan import (
    MOST_LOST,
    Measured,
    NoRows,
    OfflinePlan,
    OfflineRow,
    Ratio,
    StoredTitles,
)
from qt_bert.results.probe import PairsRef
from qt_bert.text import Text, counted, interval, joined, listed, number

# Which layers may read titles before the query comes, said in a few sentences.


KILOBYTE = 1000
PERCENT = 100

_REASONS: dict[NoRows, Text] = {
    "offline": say("this_model_offline_one"),
    "one layer": say("one_layer_alone"),
    "no room": say("queries_long_behind_most"),
}


def recommendation(found: OfflinePlan) -> Text:
    """How many layers, what they cost before and after retraining, bytes and speed; or why none."""
    if found.reason is not None:
        return _REASONS[found.reason]
    return joined(_sentences(found))


def _sentences(found: OfflinePlan) -> Iterator[Text]:
    row = found.at
    yield _free(found, row) if found.chosen is not None else _not_free(found, row)
    if found.chosen is None and found.retrain:
        yield _to_train(found.retrain)
    if found.titles is not None:
        yield _stored(found.titles)
    if row is not None and row.speed is not None and found.timed is not None:
        yield _faster(row, row.speed, found.timed.titles)


def _free(found: OfflinePlan, row: OfflineRow | None) -> Text:
    return say(
        "lowest_layers_can_read",
        chosen=found.chosen,
        layers=found.layers,
        metric=_metric(found),
        MOST_LOST=MOST_LOST,
        costs=_changes(row, found),
    )


def _not_free(found: OfflinePlan, row: OfflineRow | None) -> Text:
    return say(
        "not_free_without_retraining",
        layers=found.layers,
        tried=listed(str(one.layers) for one in found.rows),
        metric=_metric(found),
        MOST_LOST=MOST_LOST,
        retrain=found.retrain,
        costs=_changes(row, found),
    )


def _metric(found: OfflinePlan) -> Text:
    """The deciding metric's name."""
    return say("quality_measured") if found.metric is None else metric_name(found.metric)


def _changes(row: OfflineRow | None, found: OfflinePlan) -> Text:
    """`; on validation it changes by …`, with moved positions and the block each alone."""
    metric = found.metric
    if row is None or metric is None or metric not in row.both:
        return Text("", "")
    both, block = row.both[metric], row.block[metric]
    moved, name = found.positions[metric], metric_name(metric)
    shown, alone = change_in_words(both), (change_in_words(moved), change_in_words(block))
    return say(
        "untrained_changes_validation_moved",
        name=name,
        shown=shown,
        alone=alone[0],
        alone_2=alone[1],
    )


def _to_train(layers: int) -> Text:
    return say("train_qt_bert_train", layers=layers)


def _stored(titles: StoredTitles) -> Text:
    half, eighth = (number(titles.size[kind] / KILOBYTE, 1) for kind in ("float16", "int8"))
    tokens = number(titles.tokens, 1)
    return say("title_tokens_average_takes", tokens=tokens, half=half, eighth=eighth)


def _faster(row: OfflineRow, speed: Ratio, titles: int) -> Text:
    shown = f"{number(speed.value, 2)} {interval(speed.low, speed.high, 2)}".rstrip()
    return say("one_query_over_titles", titles=titles, layers=row.layers, shown=shown)


# Titles read before the query comes: a row a number of layers, and bytes.


TITLE = say("titles_read_before_query")
WAYS = {
    "positions": say("moved_positions_alone"),
    "block": say("texts_apart_alone"),
    "both": say("both"),
}
"""What of an offline model is changed."""

_CHOSEN = Badge(say("free"), "good")
_RETRAIN = Badge(say("train_with"), "open")


def offline(found: OfflinePlan | None) -> tuple[Block, ...]:
    """The recommendation, the rows with their curve, and what titles take."""
    if found is None:
        return ()
    return (
        Prose(title=TITLE, body=recommendation(found)),
        *_rows(found),
        *_curve(found),
        *_titles(found),
    )


def _rows(found: OfflinePlan) -> tuple[Block, ...]:
    if not found.rows:
        return ()
    shown = _columns(found)
    return (
        Table(
            name="plan_offline",
            title=say("layers_read_titles_beforehand"),
            columns=(
                Column("layers", say("lowest_layers")),
                Column("choice", say("choice")),
                *(_column(found, way, metric) for way, metric in shown),
                Column("speed", say("speed")),
            ),
            rows=tuple(
                (
                    row.layers,
                    _badge(found, row),
                    *(change(_measured(found, row, *one)) for one in shown),
                    ratio(row.speed),
                )
                for row in found.rows
            ),
            note=_note(found),
        ),
    )


def _columns(found: OfflinePlan) -> list[tuple[str, str]]:
    """The deciding metric in all three ways, the others where both are changed: way and metric."""
    others = [("both", name) for name in found.positions if name != found.metric]
    deciding = [] if found.metric is None else [(way, found.metric) for way in WAYS]
    return deciding + others


def _measured(found: OfflinePlan, row: OfflineRow, way: str, metric: str) -> Measured | None:
    return {"positions": found.positions, "block": row.block, "both": row.both}[way].get(metric)


def _column(found: OfflinePlan, way: str, metric: str) -> Column:
    name = metric_name(metric)
    return Column(
        way if metric == found.metric else f"{way}_{metric}",
        say("ways_of", name=name, ways_way=WAYS[way]),
    )


def _badge(found: OfflinePlan, row: OfflineRow) -> Badge | None:
    if found.chosen is None:
        return _RETRAIN if row.layers == found.retrain else None
    return _CHOSEN if row.layers == found.chosen else None


def _note(found: OfflinePlan) -> Text:
    said = [
        say(
            "offline_measured_on",
            validation=_of(found.validation),
            discovery=_of(found.discovery),
            start=found.title_start,
            room=found.title_tokens,
            long=f"{100 * found.long_queries:.1f}",
            MOST_LOST=MOST_LOST,
        )
    ]
    if (timed := found.timed) is not None:
        said.append(
            say(
                "offline_timed",
                titles=timed.titles,
                states=timed.states,
                queries=timed.queries,
                query_queries=counted(timed.queries, "query", "queries"),
                whole_ms=timed.whole_ms,
            )
        )
    return joined(said)


def _of(pairs: PairsRef | None) -> Text:
    count, queries = (0, 0) if pairs is None else (pairs.n_pairs or 0, pairs.n_queries or 0)
    return say(
        "pairs_of_queries",
        count=count,
        queries=queries,
        count_pair=counted(count, "pair"),
        query_queries=counted(queries, "query", "queries"),
    )


def _curve(found: OfflinePlan) -> tuple[Block, ...]:
    """The deciding metric's change over the number of layers."""
    metric = found.metric
    if metric is None or len(found.rows) < 2:
        return ()
    name = metric_name(metric)
    return (
        FigureBlock(
            figure=Curve(
                name="plan_offline_curve",
                title=say("quality_layers_read_titles"),
                x_label=say("lowest_layers"),
                y_label=say("change", name=name),
                unit="",
                series=tuple(_series(found, way, metric) for way in ("both", "block", "positions")),
                note=say("validation_without_retraining_bands"),
            )
        ),
    )


def _series(found: OfflinePlan, way: str, metric: str) -> Series:
    """A line a way; that of the moved positions is level, and dashed."""
    queries = None if found.validation is None else found.validation.n_queries
    measured = [(row.layers, _measured(found, row, way, metric)) for row in found.rows]
    return Series(
        name=WAYS[way],
        points=tuple(
            Point(x=layers, y=one.change, low=one.ci_low, high=one.ci_high, n=queries)
            for layers, one in measured
            if one is not None
        ),
        dashed=way == "positions",
    )


def _titles(found: OfflinePlan) -> tuple[Block, ...]:
    titles = found.titles
    if titles is None:
        return ()
    return (
        Table(
            name="plan_offline_titles",
            title=say("what_stored_title_states"),
            columns=(
                Column("states", say("states_type")),
                Column("kilobytes", say("title_kb"), digits=2),
            ),
            rows=tuple((kind, size / KILOBYTE) for kind, size in titles.size.items()),
            note=say(
                "discovery_tokens_average_separators",
                titles=titles.titles,
                tokens=titles.tokens,
                distinct_title=counted(titles.titles, "distinct title"),
            ),
        ),
    )
