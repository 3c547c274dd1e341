"""The exception for envs that fail; everything else is a built-in exception type."""

from __future__ import annotations

from collections.abc import Sequence

from tensordict import TensorDictBase

from torchrl_pool import _core


class EnvFailure(RuntimeError):
    """One or more envs failed while they were created, reset or stepped.

    All other envs of the call have finished their work. The failed ones refuse to be stepped until they have
    been reset, with a ``"_reset"`` mask or with the whole pool.

    Attributes:
        env_index: the failed envs, ascending.
        messages: what each of them reported.
        tensordict: what the call would have returned for all envs (the ``"next"`` entries of a step, the root
            entries of a reset), with zeros in the rows of the failed ones; ``None`` if nothing was computed.
    """

    def __init__(
        self,
        message: str,
        env_index: Sequence[int] = (),
        messages: Sequence[str] = (),
        tensordict: TensorDictBase | None = None,
    ) -> None:
        super().__init__(message)
        self.env_index = list(env_index)
        self.messages = list(messages)
        self.tensordict = tensordict


def env_failure(error: _core.EnvFailure, tensordict: TensorDictBase | None) -> EnvFailure:
    """The executor's failure as the public exception."""
    message, faults = error.args
    return EnvFailure(message, [index for index, _ in faults], [text for _, text in faults], tensordict)
