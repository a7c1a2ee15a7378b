"""A probe of a few lines: how good is the model? `fake_probe` adds it to the room."""

import pandas as pd

from qt_bert.heads import Head
from qt_bert.probes.base import Context, Result
from qt_bert.stats.estimate import over_queries


def measure(context: Context) -> Result:
    from qt_bert.scoring.judge import judge_logits

    pairs = context.validation
    logits = context.model.logits([(pair.query, pair.title) for pair in pairs])
    context.work.mkdir(parents=True, exist_ok=True)
    with open(context.work / "runs.txt", "a", encoding="utf-8") as handle:
        handle.write("run\n")
    if (context.work.parent / "stop").exists():
        raise KeyboardInterrupt
    judged = judge_logits(logits, pairs, context.model.checkpoint.settings.labels)
    context.guards["difference"] = 1e-6
    right = 100.0 * (judged.predicted == judged.truth)
    return Result(
        measurements={"above": over_queries(right, [pair.query for pair in pairs])},
        heads=pd.DataFrame({"score": [1.0]}, index=["L0H1"]),
        sets={"chosen": [Head(0, 1)]},
        selected="chosen",
        settings={"sample": context.choose(2, 20)},
    )
