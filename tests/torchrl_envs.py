"""Envs of TorchRL for tests; importing them imports torch, which those of ``python_envs`` do without."""

from __future__ import annotations

from functools import partial

import torch
from tensordict import TensorDict
from torchrl.data import Binary, Bounded, Categorical, Composite, Unbounded
from torchrl.envs import EnvBase


class TwoAgents(EnvBase):
    """Two agents with actions, observations, rewards and flags of their own; the state is in the object.

    Args:
        root_flags: whether there are flags of the whole env too.
        counted: whether the agents are a dimension of their tensordicts.
    """

    def __init__(self, root_flags=True, counted=False):
        super().__init__()
        self.root_flags, self.shape_of_agents = root_flags, (2,) * counted
        agents = partial(Composite, shape=self.shape_of_agents)
        self.observation_spec = Composite(
            agents=agents(observation=Unbounded((2, 3)), position=Unbounded((2,), dtype=torch.int64)),
            clock=Unbounded((1,), dtype=torch.int32),
        )
        self.action_spec = Composite(agents=agents(action=Categorical(4, shape=(2,))))
        self.reward_spec = Composite(agents=agents(reward=Unbounded((2, 1))))
        flags = {name: Binary(1, (2, 1), dtype=torch.bool) for name in ("done", "terminated")}
        self.done_spec = Composite(agents=agents(flags), **(_root_flags() if root_flags else {}))

    def _set_seed(self, seed):
        self.generator = torch.Generator().manual_seed(seed or 0)

    def _reset(self, tensordict=None, **kwargs):
        if not hasattr(self, "generator"):
            self._set_seed(0)
        self.steps = 0
        self.position = torch.zeros(2, dtype=torch.int64)
        return TensorDict(self._observe())

    def _step(self, tensordict):
        self.steps += 1
        self.position = self.position + tensordict["agents", "action"]
        out = TensorDict(self._observe())
        over = (self.position >= 9).unsqueeze(-1)
        out["agents", "reward"] = self.position.float().unsqueeze(-1) / 2
        out["agents", "terminated"] = over
        if self.root_flags:
            out["terminated"] = over.all().reshape(1)
            out["truncated"] = torch.tensor([self.steps >= 8])
        return out

    def _observe(self):
        drawn = torch.rand((2, 3), generator=self.generator)
        agents = TensorDict(
            {"observation": drawn, "position": self.position.clone()}, batch_size=self.shape_of_agents
        )
        return {"agents": agents, "clock": torch.tensor([self.steps], dtype=torch.int32)}


class Stateless(EnvBase):
    """Its state is in the tensordict alone; its rewards have lost their shape."""

    def __init__(self):
        super().__init__()
        self.observation_spec = Composite(
            height=Unbounded((1,)), params=Composite(slope=Unbounded((1,)), limit=Unbounded((1,)))
        )
        self.state_spec = self.observation_spec.clone()
        self.action_spec = Bounded(-1, 1, (1,))
        self.reward_spec = Unbounded((1,))

    def _set_seed(self, seed):
        self.generator = torch.Generator().manual_seed(seed or 0)

    def _reset(self, tensordict=None, **kwargs):
        if not hasattr(self, "generator"):
            self._set_seed(0)
        params = TensorDict({"slope": torch.full((1,), 0.5), "limit": torch.full((1,), 2.0)})
        return TensorDict({"height": torch.rand(1, generator=self.generator), "params": params})

    def _step(self, tensordict):
        params = tensordict["params"]
        height = tensordict["height"] + params["slope"] + 0.1 * tensordict["action"]
        return TensorDict(
            {
                "height": height,
                "params": params,
                "reward": height.sum(),
                "done": height > params["limit"],
            }
        )


def _root_flags():
    return {name: Binary(1, (1,), dtype=torch.bool) for name in ("done", "terminated", "truncated")}
