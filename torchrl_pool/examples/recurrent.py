"""What an actor and a critic remember with."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn
from torchrl.modules import GRUModule, LSTMModule

from torchrl_pool.examples.ppo_settings import Config


@dataclass(frozen=True)
class Memory:
    """Makes a layer of memory; its states are entries of the data, zero where an episode begins.

    Args:
        cell: ``"lstm"`` or ``"gru"``.
        hidden_size: its units.
    """

    cell: str
    hidden_size: int

    def __call__(self, in_key: str, out_key: str, in_features: int) -> LSTMModule | GRUModule:
        make, states = {
            "lstm": (LSTMModule, ("hidden", "cell")),
            "gru": (GRUModule, ("hidden",)),
        }[self.cell]
        module = make(
            input_size=in_features,
            hidden_size=self.hidden_size,
            in_keys=[in_key, *states],
            out_keys=[out_key, *(("next", state) for state in states)],
        )
        for name, parameter in module.named_parameters():
            if "weight" in name:
                nn.init.orthogonal_(parameter)
            else:
                nn.init.zeros_(parameter)
        return module


def memory_of(config: Config) -> Memory | None:
    """That of a training; None: it has none."""
    return None if config.recurrent == "none" else Memory(config.recurrent, config.hidden_size)
