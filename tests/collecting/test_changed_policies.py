"""Batches follow what somebody has changed in a policy since the last one, as TorchRL's Collector's do."""

import pytest
import torch
from cases import cases
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn
from torchrl.collectors import Collector
from torchrl.data import Bounded, Categorical, Composite
from torchrl.envs.utils import ExplorationType, RandomPolicy
from torchrl.modules import MLP, EGreedyModule, ProbabilisticActor, TanhNormal

from torchrl_pool import PoolCollector, PoolEnv


class LocAndScale(nn.Module):
    def forward(self, outputs):
        loc, scale = outputs.chunk(2, -1)
        return loc, scale.exp()


class Wider(LocAndScale):
    def forward(self, outputs):
        loc, scale = super().forward(outputs)
        return loc, scale + 1


def make_policy():
    torch.manual_seed(0)
    network = nn.Sequential(MLP(3, 2, num_cells=[8]), LocAndScale())
    return ProbabilisticActor(
        TensorDictModule(network, ["observation"], ["loc", "scale"]),
        in_keys=["loc", "scale"],
        distribution_class=TanhNormal,
        distribution_kwargs={"low": torch.tensor(-2.0), "high": torch.tensor(2.0)},
    )


def network_of(policy):
    return policy.module[0].module


def draw_of(policy):
    return policy.module[-1]


@torch.no_grad()
def train(policy):
    for parameter in policy.parameters():
        parameter.mul_(2.0)


CHANGES = {
    "weights": train,
    "a module in another's place": lambda policy: network_of(policy).__setitem__(1, Wider()),
    "a layer more": lambda policy: network_of(policy)[0].append(nn.Linear(2, 2)),
    "a hook": lambda policy: network_of(policy)[0][0].register_forward_hook(lambda *all: all[2] + 1),
    "a hook before": lambda policy: network_of(policy).register_forward_pre_hook(lambda _, all: (-all[0],)),
    "an argument": lambda policy: draw_of(policy).distribution_kwargs.update(low=torch.tensor(-1.0)),
    "an argument, in place": lambda policy: draw_of(policy).distribution_kwargs["low"].fill_(-1.0),
    "a parameter": lambda policy: setattr(network_of(policy)[0][0], "bias", nn.Parameter(torch.ones(8))),
    "forward": lambda policy: setattr(network_of(policy)[1], "forward", Wider().forward),
}


def batches(kind, policy, change, at, **options):
    env = PoolEnv("Pendulum-v1", 4, seed=0)
    collector = kind(env, policy, frames_per_batch=8, total_frames=24, **options)
    torch.manual_seed(1)
    found = []
    for number, batch in enumerate(collector):
        found.append(batch["action"].clone())
        if number == at:
            change(policy)
    return found


@pytest.mark.parametrize("change", cases(default=["a hook before", "an argument, in place"], also=CHANGES))
def test_a_policy_that_was_changed(change):
    alter = CHANGES[change]
    ours = batches(PoolCollector, make_policy(), alter, 0)
    theirs = batches(Collector, make_policy(), alter, 0)
    assert all(torch.equal(one, other) for one, other in zip(ours, theirs, strict=True))
    unchanged = batches(PoolCollector, make_policy(), alter, 99)
    assert torch.equal(ours[0], unchanged[0])
    assert not torch.equal(ours[1], unchanged[1])


def test_another_exploration_type():
    found = batches(PoolCollector, make_policy(), lambda policy: None, 99)
    collector = PoolCollector(PoolEnv("Pendulum-v1", 4, seed=0), make_policy(), frames_per_batch=8)
    torch.manual_seed(1)
    made = iter(collector)
    assert torch.equal(next(made)["action"], found[0])
    collector.exploration_type = ExplorationType.DETERMINISTIC
    state = torch.get_rng_state()
    next(made)
    assert torch.equal(torch.get_rng_state(), state)  # nothing was drawn


def test_specs_of_exploration_modules():
    module = EGreedyModule(Composite(action=Categorical(2)), eps_init=1.0, eps_end=1.0)
    network = TensorDictModule(lambda values: values[:, 0].long() * 0, ["observation"], ["action"])
    env = PoolEnv("CartPole-v1", 4, seed=0, categorical_action_encoding=True)
    made = iter(PoolCollector(env, TensorDictSequential(network, module), frames_per_batch=64))
    assert next(made)["action"].any()
    module.spec["action"] = Categorical(1)
    assert not next(made)["action"].any()


def test_random_policies_follow_their_specs():
    policy = RandomPolicy(Composite(action=Bounded(-2, 2, (4, 1)), shape=[4]))
    made = iter(PoolCollector(PoolEnv("Pendulum-v1", 4, seed=0), policy, frames_per_batch=64))
    next(made)
    policy.action_spec["action"] = Bounded(-0.1, 0.1, (4, 1))
    assert float(next(made)["action"].abs().max()) <= 0.1


def test_lazy_layers_are_made_by_the_first_batch():
    policy = TensorDictModule(nn.Sequential(nn.LazyLinear(1), nn.Tanh()), ["observation"], ["action"])
    collector = PoolCollector(PoolEnv("Pendulum-v1", 4), policy, frames_per_batch=8, use_buffers=False)
    assert next(iter(collector)).shape == (4, 2)
