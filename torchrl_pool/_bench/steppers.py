"""What steps a TorchRL env as a collector with a free policy would: the env, its root, a stock of actions."""

from __future__ import annotations

import torch
from tensordict import TensorDictBase
from torchrl.envs import EnvBase

from torchrl_pool._env.pool_env import PoolEnv

_STOCK = 64


class Stepper:
    """Calls ``step_and_maybe_reset`` again and again."""

    def __init__(self, env: EnvBase) -> None:
        self.env = env
        self.root: TensorDictBase = env.reset()
        self.actions = [env.rand_action()["action"] for _ in range(_STOCK)]
        self.position = 0

    def __call__(self, calls: int) -> None:
        env, root, actions = self.env, self.root, self.actions
        for i in range(self.position, self.position + calls):
            # As cheaply as tensordict allows: what the policy does is not measured here.
            root._set_str("action", actions[i % _STOCK], inplace=False, validated=True)
            _, root = env.step_and_maybe_reset(root)
        self.root = root
        self.position += calls


class AsyncStepper:
    """Receives a batch of the envs in flight and sends it again.

    Between two runs nothing is in flight: it would take the processors from whose turn it is then.
    """

    def __init__(self, env: PoolEnv, batch_size: int) -> None:
        self.env, self.batch_size = env, batch_size
        self.actions = [env.rand_action()["action"][:batch_size].clone() for _ in range(_STOCK)]
        env.async_reset_send()
        num_batches = env.num_envs // batch_size
        self.idle = [env.async_reset_recv(batch_size, max_get=batch_size) for _ in range(num_batches)]

    def __call__(self, calls: int) -> None:
        env, idle, in_flight = self.env, self.idle, 0
        for i in range(calls):
            if idle:
                root = idle.pop()
                in_flight += 1
            else:
                root = self._receive()
            root._set_str("action", self.actions[i % _STOCK], inplace=False, validated=True)
            env.async_step_and_maybe_reset_send(root)
        idle += [self._receive() for _ in range(in_flight)]

    def _receive(self) -> TensorDictBase:
        size = self.batch_size
        root: TensorDictBase = self.env.async_step_and_maybe_reset_recv(size, max_get=size)[1]
        return root


def one_torch_thread() -> None:
    """The benchmarks measure envs, not torch's own thread pool."""
    torch.set_num_threads(1)
