"""TorchRL's cases of keys that are selected, of entries that episodes begin with, and of lives."""

import pytest
import torch
from torch import nn
from torchrl.data import Composite, Unbounded
from torchrl.envs import EndOfLifeTransform, SelectTransform, SerialEnv, TensorDictPrimer
from torchrl.envs.utils import check_env_specs
from torchrl.modules import GRUModule
from torchrl.modules.utils import get_primers_from_module
from torchrl.objectives import DQNLoss
from ways import as_it_is, transformed

from torchrl_pool import fuse

# ---- SelectTransform


def test_what_is_selected_is_all_there_is(way):
    root = transformed(way, "Draws-v0", SelectTransform("bounded", "pixels"), num_envs=2).reset()
    assert set(root.keys()) == {"bounded", "pixels", "done", "terminated", "truncated"}


@pytest.mark.parametrize("keeps", [True, False])
def test_flags_may_be_left_out(way, keeps):
    env = transformed(way, "Draws-v0", SelectTransform("bounded", "done", keep_dones=keeps), num_envs=2)
    assert "done" in env.done_keys
    check_env_specs(env)
    env = transformed(way, "Draws-v0", SelectTransform("bounded", keep_dones=keeps), num_envs=2)
    assert ("done" in env.done_keys) is keeps
    check_env_specs(env)


@pytest.mark.parametrize("keeps", [True, False])
def test_rewards_may_be_left_out(way, keeps):
    env = transformed(way, "Draws-v0", SelectTransform("bounded", "reward", keep_rewards=keeps), num_envs=2)
    assert "reward" in env.reward_keys
    check_env_specs(env)
    env = transformed(way, "Draws-v0", SelectTransform("bounded", keep_rewards=keeps), num_envs=2)
    assert ("reward" in env.reward_keys) is keeps
    check_env_specs(env)


@pytest.mark.parametrize("selected", [(), (("agents", "observation"),)], ids=["nothing", "observations"])
def test_selected_keys_of_agents(way, selected):
    env = transformed(way, "Agents-v0", SelectTransform(*selected), num_envs=2)
    keys = env.rollout(1).keys(True, True)
    assert {("next", "agents", "reward"), ("agents", "action"), "done", ("next", "done")} <= set(keys)
    for key in (("agents", "observation"), ("next", "agents", "observation")):
        assert (key in keys) is bool(selected)
    assert "state" not in keys


# ---- TensorDictPrimer


@pytest.mark.parametrize(("random", "value"), [(True, 0.0), (False, 0.0), (False, 1.0)])
@pytest.mark.parametrize("names", [["memory"], ["memory", "other"]])
def test_episodes_begin_with_a_number_or_with_draws(way, names, random, value):
    specs = {name: Unbounded((2, 4)) for name in names}
    primer = TensorDictPrimer(**specs, random=random, default_value=value, expand_specs=True)
    root = transformed(way, "HalfCheetah-v5", primer, num_envs=2).reset()
    for name in names:
        assert root[name].shape == (2, 2, 4)
        assert (root[name] == value).all() != random


@pytest.mark.parametrize("stops", [True, False])
def test_a_batchs_memory_is_that_of_its_envs_alone(way, stops):
    def rollout(env):
        env.set_seed(0)
        torch.manual_seed(0)
        return env.rollout(60, break_when_any_done=stops)

    def under_primer(way, num_envs):
        specs = Composite({"memory": Unbounded((num_envs, 4))}, shape=(num_envs,))
        return transformed(way, "CartPole-v1", TensorDictPrimer(specs), num_envs=num_envs, seed=None)

    together = rollout(under_primer(way, 2))
    apart = rollout(SerialEnv(2, lambda: under_primer(as_it_is, 1))).squeeze(1)
    for key in together.keys(True, True):
        assert torch.equal(together[key], apart[key]), key


@pytest.mark.parametrize("made", [False, True], ids=["numbers", "functions"])
def test_each_entry_begins_with_its_own(way, made):
    values = {"one": 1.0, "two": 2.0}
    given = {key: lambda value=value: torch.full((2, 3), value) for key, value in values.items()}
    primer = TensorDictPrimer(
        one=Unbounded((2, 3)),
        two=Unbounded((2, 3)),
        default_value=given if made else values,
        expand_specs=False,
    )
    env = transformed(way, "HalfCheetah-v5", primer, num_envs=2)
    check_env_specs(env)
    data = env.rollout(3)
    for key, value in values.items():
        assert (data[key] == value).all()
        assert (data["next", key] == value).all()


def test_primers_of_a_module_get_the_shape_of_the_batch(way):
    env = transformed(way, "Pendulum-v1", SelectTransform("observation"), num_envs=2)
    primers = get_primers_from_module(GRUModule(3, 4, num_layers=2, in_key="observation", out_key="action"))
    assert [spec.shape for spec in primers.primers.values(True, True)] == [(2, 4)]
    env.append_transform(primers)
    root = env.reset()
    for key, spec in primers.primers.items(True, True):
        assert spec.shape == root[key].shape == (2, 2, 4)


# ---- EndOfLifeTransform


@pytest.mark.parametrize("eol", ["over", ("nested", "over")])
def test_losses_are_told_where_lives_end(eol):
    """TorchRL's own way needs GymEnv's emulator."""
    lives = EndOfLifeTransform(eol_key=eol, lives_key="left")
    env = transformed(fuse, "ALE/Breakout-v5", lives, num_envs=2, info_keys=["lives"])
    check_env_specs(env)
    loss = DQNLoss(nn.Identity(), action_space="categorical")
    lives.register_keys(loss)
    assert ("next", eol) in loss.in_keys or ("next", *eol) in loss.in_keys
