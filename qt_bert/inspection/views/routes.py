"""The routes from the matching heads to the reader that a run found, as the report draws them."""

from __future__ import annotations

from dataclasses import dataclass

from qt_bert.inspection.inspected import Inspected
from qt_bert.inspection.studied import Studied
from qt_bert.inspection.views.commands import study_commands
from qt_bert.results import Graph, Text

PROBE = "routes"
TITLE = Text("匹配头到阅读头的路径", "Routes from the matching heads to the reader")
NO_RUN = Text(
    "路径图来自一次完整的研究，这里没有打开。先跑研究，再用它打开此页：",
    "The graph of routes is of a whole study, and none is open here. Run one, then open the page on it:",
)


@dataclass(frozen=True, kw_only=True)
class Routes:
    """The graphs of a run; `said` is the probe's summary, where it ran.

    `commands` make the graphs, where no run with the probe is open; then there are none.
    """

    graphs: tuple[Graph, ...] = ()
    said: Text | None = None
    commands: tuple[str, ...] = ()


def routes(inspected: Inspected, studied: Studied | None) -> Routes:
    """What the run that is open has of the probe `routes`.

    A graph whose outcome the set does not move measurably is not drawn; the summary says so.
    """
    table = None if studied is None else studied.table(PROBE)
    said = None if table is None else table.summary
    figures = None if studied is None or studied.figures is None else studied.figures.get(PROBE)
    if figures is None:
        return Routes(said=said, commands=study_commands(inspected))
    return Routes(graphs=tuple(one for one in figures if isinstance(one, Graph)), said=said)
