"""Memories: one step of an LSTM or GRU, which begins anew where episodes do."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torchrl.modules import GRUModule, LSTMModule

from torchrl_pool._collecting.lean_policy.tensordict_call import TensorDictCall
from torchrl_pool._collecting.lean_policy.values import Values


class Recurrent(TensorDictCall):
    """``LSTMModule`` and ``GRUModule``, one step at a time."""

    def __init__(self, module: LSTMModule | GRUModule) -> None:
        super().__init__(module)
        cell = module.lstm if isinstance(module, LSTMModule) else module.gru
        by_steps = type(cell) in (nn.LSTM, nn.GRU) and not module.recurrent_mode
        self.cell: nn.RNNBase | None = cell if by_steps else None

    def __call__(self, values: Values) -> None:
        features, *states, is_init = (values[key] for key in self.in_keys)
        fits = all(type(state) is Tensor and state.ndim == 3 for state in (*states, is_init.unsqueeze(-1)))
        if self.cell is None or not fits or features.ndim != 2:
            super().__call__(values)
            return
        begins = is_init.unsqueeze(-1)
        zero = torch.zeros((), dtype=states[0].dtype, device=states[0].device)
        before = [torch.where(begins, zero, state).transpose(0, 1).contiguous() for state in states]
        output, after = self.cell(features.unsqueeze(1), tuple(before) if len(before) > 1 else before[0])
        after = after if isinstance(after, tuple) else (after,)
        results = output.squeeze(1), *(state.transpose(0, 1) for state in after)
        values.update(zip(self.out_keys, results, strict=True))
