"""Against torch's own bidirectional LSTM over packed sequences."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from qt_bert.encoder.architectures.bilstm import BiLstm


def torch_lstm(ours: BiLstm) -> nn.LSTM:
    theirs = nn.LSTM(3, 4, batch_first=True, bidirectional=True)
    weights = dict(ours.left_to_right.state_dict())
    weights |= {f"{name}_reverse": value for name, value in ours.right_to_left.state_dict().items()}
    theirs.load_state_dict(weights)
    return theirs


def test_rows_of_any_length_equal_torchs_packed_lstm_with_its_gradient():
    torch.manual_seed(0)
    ours = BiLstm(3, 4)
    theirs = torch_lstm(ours)
    rows, lengths = torch.randn(5, 7, 3), torch.tensor([7, 2, 1, 5, 3])
    packed = pack_padded_sequence(rows, lengths, batch_first=True, enforce_sorted=False)
    expected, _ = pad_packed_sequence(theirs(packed)[0], batch_first=True)
    got = ours(rows, lengths)
    torch.testing.assert_close(got, expected)
    weights = torch.randn_like(expected)
    (got * weights).sum().backward()
    (expected * weights).sum().backward()
    torch.testing.assert_close(ours.left_to_right.weight_ih_l0.grad, theirs.weight_ih_l0.grad)
    torch.testing.assert_close(
        ours.right_to_left.weight_hh_l0.grad, theirs.weight_hh_l0_reverse.grad
    )


def test_what_stands_at_padding_changes_nothing():
    torch.manual_seed(0)
    ours, lengths = BiLstm(3, 4), torch.tensor([4, 2])
    rows = torch.randn(2, 4, 3)
    other = rows.clone()
    other[1, 2:] = 1e3
    torch.testing.assert_close(ours(other, lengths), ours(rows, lengths))
    alone = ours(rows[1:, :2], lengths[1:])
    torch.testing.assert_close(ours(rows, lengths)[1:, :2], alone)
    assert (ours(rows, lengths)[1, 2:] == 0).all()
