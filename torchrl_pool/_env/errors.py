"""The exception for envs that fail; everything else is a built-in exception type."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import torch
from tensordict import TensorDictBase
from torchrl.envs import EnvBase

from torchrl_pool import _core
from torchrl_pool._processes.changed_modules import with_hint


class EnvFailure(RuntimeError):
    """One or more envs failed while they were created, reset or stepped.

    All other envs of the call have finished their work. The failed ones refuse to be stepped until they have
    been reset, with a ``"_reset"`` mask or with the whole pool. Simulations of a
    :class:`~torchrl_pool.MujocoPool` that diverge stay in their state before the step, and may go on from it.

    Args:
        message: for the first env; the rest are the attributes.

    Attributes:
        env_index: the failed envs, ascending.
        messages: what each of them reported.
        steps: the step of its episode that each of them failed in, from 1 on; 0: a reset, -1: its creation.
        hung: those whose call did not return within the pool's ``step_timeout``. They can be reset once it
            has; until then exclude them with a ``"_step"`` or ``"_reset"`` mask.
        tensordict: what the call would have returned for all envs (the ``"next"`` entries of a step, the root
            entries of a reset), with zeros in the rows of the failed ones; ``None`` if nothing was computed.

    Examples:
        >>> import gymnasium
        >>> from torchrl_pool import EnvFailure, PoolEnv
        >>> class Fragile(gymnasium.Wrapper):
        ...     def step(self, action):
        ...         raise RuntimeError("it broke")
        >>> def make_env(fragile):
        ...     env = gymnasium.make("CartPole-v1")
        ...     return Fragile(env) if fragile else env
        >>> env = PoolEnv([lambda i=i: make_env(i == 2) for i in range(4)], num_envs=4, num_workers=0)
        >>> try:
        ...     data = env.rollout(10)
        ... except EnvFailure as failure:
        ...     print(failure.env_index, failure.steps)
        [2] [1]
    """

    def __init__(
        self,
        message: str,
        env_index: Sequence[int] = (),
        messages: Sequence[str] = (),
        steps: Sequence[int] = (),
        hung: Sequence[int] = (),
        tensordict: TensorDictBase | None = None,
    ) -> None:
        super().__init__(message)
        self.env_index = list(env_index)
        self.messages = list(messages)
        self.steps = list(steps)
        self.hung = list(hung)
        self.tensordict = tensordict


def env_failure(error: _core.EnvFailure, tensordict: TensorDictBase | None) -> EnvFailure:
    """The executor's failure as the public exception."""
    message, faults, _ = error.args
    hung = [index for index, _, _, hangs in faults if hangs]
    if hung and tensordict is not None:
        # The thread that hangs may still write to its rows: nobody shall see that.
        tensordict = tensordict.clone()
        for index in hung:
            tensordict[index].zero_()
    return EnvFailure(
        with_hint(message),
        [index for index, *_ in faults],
        [with_hint(text) for _, text, *_ in faults],
        [step for _, _, step, _ in faults],
        hung,
        tensordict,
    )


def joined(failures: Sequence[EnvFailure]) -> EnvFailure:
    """One failure for envs that were waited for one by one."""
    failures = sorted(failures, key=lambda failure: failure.env_index)
    message = str(failures[0])
    if (others := len(failures) - 1) > 0:
        message += f" (and {others} more env{'s' if others > 1 else ''} failed too)"
    return EnvFailure(
        message,
        [index for failure in failures for index in failure.env_index],
        [text for failure in failures for text in failure.messages],
        [step for failure in failures for step in failure.steps],
        [index for failure in failures for index in failure.hung],
    )


@contextlib.contextmanager
def naming_doubles(env: EnvBase) -> Iterator[None]:
    """Where a policy fails because its numbers are float32, the error says which observations are not."""
    try:
        yield
    except RuntimeError as error:
        text = str(error).lower()
        specs = env.observation_spec.items(True, True)
        doubles = [key for key, spec in specs if spec.dtype is torch.float64]
        if doubles and "double" in text and "float" in text:
            error.add_note(
                f"{', '.join(map(repr, doubles))}: float64, as in the reference; "
                "PoolEnv(…, obs_dtype=torch.float32) gives what a float32 network takes"
            )
        raise
