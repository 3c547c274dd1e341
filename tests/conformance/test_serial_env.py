"""Envs of Python give what TorchRL's SerialEnv gives, bit for bit, wherever they run."""

import pytest
import torch
from cases import cases
from comparing import assert_holds_steps
from kinds import PYTHON
from torchrl.envs import SerialEnv
from torchrl_envs import Stateless, TwoAgents

N = 5


class OneByOne:
    """Envs that are stepped each by itself: SerialEnv keeps old flags where an env leaves some out."""

    def __init__(self, num_envs, make):
        self.envs = [make() for _ in range(num_envs)]
        self.action_keys = self.envs[0].action_keys

    def set_seed(self, seed):
        for env in self.envs:
            seed = env.set_seed(seed)
        return seed

    def reset(self):
        return torch.stack([env.reset() for env in self.envs])

    def step_and_maybe_reset(self, root):
        steps = [env.step_and_maybe_reset(row) for env, row in zip(self.envs, root.unbind(0), strict=True)]
        return torch.stack([data for data, _ in steps]), torch.stack([following for _, following in steps])

    def close(self, **_):
        for env in self.envs:
            env.close()


# SerialEnv gives flags of the whole env that agents' flags do not make: see test_agents_in_workers.py.
@pytest.fixture(params=[name for name in PYTHON if name != "TorchRL, agents' flags"])
def kind(request):
    return PYTHON[request.param]


@pytest.mark.parametrize("num_workers", cases([0, 2]))
def test_rollouts(kind, num_workers):
    """Seeded, with resets of those that are done, over many episodes."""
    reference = OneByOne if kind.serial in (TwoAgents, Stateless) else SerialEnv
    pool, serial = kind.make(N, num_workers=num_workers), reference(N, kind.serial)
    try:
        for seed in (3, 4):
            assert_holds_steps(pool, serial, 40, seed)
    finally:
        pool.close()
        serial.close(raise_if_closed=False)


def test_specs(kind):
    pool, serial = kind.make(3, device="cpu", info_keys=()), SerialEnv(3, kind.serial, device="cpu")
    try:
        for name in ("full_action_spec", "full_observation_spec", "full_reward_spec"):
            # PettingZooWrapper's groups of agents have a dimension of their own, ours the pool's alone.
            ours, theirs = (dict(getattr(env, name).items(True, True)) for env in (pool, serial))
            assert ours == theirs, name
    finally:
        pool.close()
        serial.close(raise_if_closed=False)
