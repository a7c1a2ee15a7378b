"""Both joined: the two towers' vectors beside the LSTM matcher's, one linear output on them.

The source (heads_of_query_title_bert, 2.4) says of its experiment "Bert+LSTM" that the two models are
combined and that BERT reads the texts apart. So each keeps its own input and both representations
meet at the output, trained together.
"""

from __future__ import annotations

import torch

from qt_bert.encoder.architectures.lstm_attention import Matcher
from qt_bert.encoder.architectures.model import PairConfig, PairModel
from qt_bert.encoder.architectures.texts import Texts
from qt_bert.encoder.architectures.two_tower import COMPARED, compared


class BertLstm(PairModel):
    """Features of a pair: what the towers and the matcher say, side by side."""

    def __init__(self, config: PairConfig) -> None:
        super().__init__(config)
        width = self._add_encoder()
        self.matcher = Matcher(config)
        self._add_classifier(COMPARED * width + config.matcher_size)

    def features(self, texts: Texts) -> torch.Tensor:
        return torch.cat([compared(*texts.first_tokens()), texts.matched(self.matcher)], -1)
