"""What the server makes ready before a visitor asks."""

from __future__ import annotations

import gc
import logging

from qt_bert.app.settings import Settings
from qt_bert.app.visit import shelf_of, warm


def test_the_first_model_is_opened_and_set_aside(checkpoint_of):
    gc.unfreeze()
    settings = Settings(models=checkpoint_of())
    try:
        warm(settings, lambda: True).join()
        assert gc.get_freeze_count() > 10_000
        shelf = shelf_of(settings)
        assert shelf.open(shelf.names[0]) is shelf.open(shelf.names[0])
    finally:
        gc.unfreeze()


def test_a_fault_is_left_to_the_page(tmp_path, caplog):
    with caplog.at_level(logging.WARNING):
        warm(Settings(models=tmp_path), lambda: True).join()
    assert str(tmp_path) in caplog.text
    gc.unfreeze()
