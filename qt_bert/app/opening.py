"""Models and results, opened once a process and shared by all visitors."""

from __future__ import annotations

import gc
import logging
import threading
import time
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from qt_bert.app.settings import Settings
from qt_bert.errors import QtBertError

if TYPE_CHECKING:
    from qt_bert.inspection.inspected import Inspected
    from qt_bert.inspection.models import Shelf
    from qt_bert.inspection.studied import Looked

_log = logging.getLogger(__name__)
_LOCK = threading.RLock()
_LOOKED: WeakKeyDictionary[Inspected, Looked] = WeakKeyDictionary()


def shelf_of(settings: Settings) -> Shelf:
    """The models that this server offers. Raises ArgumentError where there is none."""
    with _LOCK:
        return _shelf(settings)


def studied_of(inspected: Inspected, settings: Settings) -> Looked:
    """The stored results on one model, and why others were refused."""
    from qt_bert.inspection.studied import look_for_studied

    with _LOCK:
        if inspected not in _LOOKED:
            _LOOKED[inspected] = look_for_studied(inspected, settings.run)
        return _LOOKED[inspected]


def warm(settings: Settings, listening: Callable[[], bool]) -> threading.Thread:
    """Import torch and open the first model in the background, while the browser connects.

    Then what its first visitors would wait for is made. Begins once the server is `listening`, which
    it would be later for it. A fault is left to the page, which meets it again and says it.
    """

    def work() -> None:
        for _ in range(100):
            if listening():
                break
            time.sleep(0.1)
        try:
            from qt_bert.inspection.state import first_state
            from qt_bert.inspection.warming import warm_up

            shelf = shelf_of(settings)
            looked = studied_of(shelf.open(shelf.names[0]), settings)
            _set_aside()
            warm_up(shelf, first_state(shelf, looked.studied))
        except QtBertError as error:
            _log.warning("%s", error)
        _set_aside()

    thread = threading.Thread(target=work, name="opening the model", daemon=True)
    thread.start()
    return thread


def _set_aside() -> None:
    """Take what is there for good, libraries and models, out of the garbage collector's sight.

    Streamlit collects all garbage at the end of every run, and looking through torch and
    transformers for it takes longer (0.3 s) than the run itself.
    """
    gc.collect()
    gc.freeze()


@lru_cache(maxsize=8)
def _shelf(settings: Settings) -> Shelf:
    from qt_bert.inspection.models import Shelf

    return Shelf(settings.models, base=settings.base)
