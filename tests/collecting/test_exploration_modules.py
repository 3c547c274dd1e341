"""Exploration modules in PoolCollector, for all envs and for groups of them."""

import warnings

import pytest
import torch
from cases import cases
from collecting import FRAMES, N, assert_equal_batches, collect
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn
from torchrl.collectors import Collector
from torchrl.modules import (
    Actor,
    AdditiveGaussianModule,
    EGreedyModule,
    OrnsteinUhlenbeckProcessModule,
    QValueActor,
    TanhModule,
)

from torchrl_pool import PoolCollector, PoolEnv


class Times(nn.Module):
    """A policy's network whose numbers for a row do not depend on the others."""

    def __init__(self, factor):
        super().__init__()
        self.register_buffer("factor", torch.tensor(factor))

    def forward(self, observation):
        return observation[..., 2:3] * self.factor


def greedy(env, spec):
    values = QValueActor(Times([-1.0, 1.0]), in_keys=["observation"], spec=env.action_spec_unbatched)
    return TensorDictSequential(values, EGreedyModule(spec, eps_init=0.5))


def greedy_of_numbers(env, spec):
    numbers = TensorDictModule(lambda x: (x[..., 2] > 0).long(), ["observation"], ["action"])
    return TensorDictSequential(numbers, EGreedyModule(spec, eps_init=0.5))


def torque(module):
    return TensorDictSequential(TensorDictModule(Times([2.0]), ["observation"], ["action"]), module)


def gaussian(env, spec):
    return torque(AdditiveGaussianModule(spec, sigma_init=0.5))


def ornstein_uhlenbeck(env, spec):
    return torque(OrnsteinUhlenbeckProcessModule(spec, sigma=2.0))


def safe(env, spec):
    return Actor(Times([3.0]), in_keys=["observation"], spec=spec, safe=True)


NUMBERS = {"categorical_action_encoding": True}
MODULES = pytest.mark.parametrize(
    ("task", "make", "env_options"),
    cases(
        default=[
            ("CartPole-v1", greedy, {}),
            ("CartPole-v1", greedy_of_numbers, NUMBERS),
            ("Pendulum-v1", gaussian, {}),
        ],
        also=[
            ("Pendulum-v1", ornstein_uhlenbeck, {}),
            ("Pendulum-v1", safe, {}),
        ],
    ),
    ids=lambda value: getattr(value, "__name__", None),
)


@MODULES
def test_explores_as_in_collector(task, make, env_options):
    def make_policy(env):
        return make(env, env.action_spec)

    reads_is_init = make is ornstein_uhlenbeck
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = collect(PoolCollector, task, make_policy, env_options=env_options)
    expected = collect(
        Collector, task, make_policy, env_options=env_options, auto_register_policy_transforms=reads_is_init
    )
    assert_equal_batches(got, expected)


@MODULES
@pytest.mark.parametrize("groups", cases(default=[True, 3], also=[N]))
def test_specs_of_all_envs_serve_for_groups(task, make, env_options, groups):
    """The same noise as with specs of one env, which fit any number of them."""
    modules = []

    def of_all(env):
        modules.append((env, make(env, env.action_spec)))
        return modules[0][1]

    def of_one(env):
        return make(env, env.action_spec_unbatched)

    got, expected = (
        collect(PoolCollector, task, make_policy, env_options=env_options, double_buffered=groups)
        for make_policy in (of_all, of_one)
    )
    assert_equal_batches(got, expected)
    (env, policy), *_ = modules
    last = policy[-1] if isinstance(policy, TensorDictSequential) else policy
    assert last.spec["action"] == env.action_spec  # what was given is what is there afterwards


def test_bounds_of_each_env_hold_in_its_group():
    """Envs that differ in their bounds have no spec of one env."""
    torch.manual_seed(0)
    env = PoolEnv("Pendulum-v1", N, seed=0)
    spec = env.action_spec.clone()
    bounds = torch.linspace(0.2, 1.0, N).unsqueeze(-1)
    spec.space.low, spec.space.high = -bounds, bounds
    policy = gaussian(env, spec)
    batch = next(iter(PoolCollector(env, policy, frames_per_batch=FRAMES, double_buffered=True)))
    assert torch.equal(batch["action"].abs().amax(1), bounds)


def test_what_does_not_fit_a_group_is_told_what_does():
    def of(spec):
        def make(env):
            return torque(TanhModule(in_keys=["action"], spec=getattr(env, spec)))

        return make

    with pytest.raises(RuntimeError) as caught:
        collect(PoolCollector, "Pendulum-v1", of("action_spec"), double_buffered=True)
    said = "\n".join(caught.value.__notes__)
    assert "for 2 of the envs" in said
    assert "action_spec_unbatched" in said
    collect(PoolCollector, "Pendulum-v1", of("action_spec_unbatched"), double_buffered=True)
