"""What first visitors would else wait for, done once while the server has nothing else to do."""

from __future__ import annotations

from qt_bert.inspection.models import Shelf
from qt_bert.inspection.state import State
from qt_bert.models.heads import Head


def warm_up(shelf: Shelf, state: State) -> None:
    """Look at `state` once, and make what is kept for a model: its readings and mean head outputs.

    The model's base is opened and read too: the page of words sets one beside the other. The model
    runs in short turns like a visitor's, so whoever comes meanwhile waits for one of them at most.
    Raises as `Shelf.open` does.
    """
    from qt_bert.inspection.views.focus import focus
    from qt_bert.inspection.views.words import calibration_of

    model, base = shelf.open(state.model), shelf.base_of(state.model)
    focus(model, state)
    calibration_of(model)
    if base is not None:
        calibration_of(shelf.open(base))
    model.part([Head(0, 0)], "mean")
