"""The lexical baseline: an ordinal logistic regression on what query and title share in letters."""

from __future__ import annotations

from qt_bert.baselines.lexical import LexicalFeatures, word_segmenter
from qt_bert.baselines.ordinal import Labelled, OrdinalRegression, fit_best

__all__ = ["Labelled", "LexicalFeatures", "OrdinalRegression", "fit_best", "word_segmenter"]
