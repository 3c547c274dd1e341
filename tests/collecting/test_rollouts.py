"""Rollouts: of any kind that EnvBase.rollout knows, with any kind of policy, compiled or not."""

import pytest
import torch
from comparing import assert_td_equal
from small_envs import MAKERS, N, cartpole, fall_right, lean, pendulum
from tensordict.nn import TensorDictModule
from torchrl.modules import OneHotCategorical, ProbabilisticActor, TanhNormal

from torchrl_pool import PoolEnv


@MAKERS
def test_rollout_names_and_consistency(make):
    data = make(seed=0).rollout(40, break_when_any_done=False)
    assert data.batch_size == (N, 40)
    assert data.names[-1] == "time"
    goes_on = ~data["next", "done"][:, :-1].squeeze(-1)
    assert torch.equal(data["next", "observation"][:, :-1][goes_on], data["observation"][:, 1:][goes_on])
    assert not data["done"].any()


def test_rollout_stops_at_the_first_done():
    env = cartpole(seed=0)
    stopped = env.rollout(100, fall_right, break_when_any_done=True)
    done = stopped["next", "done"].squeeze(-1)
    assert done[:, -1].any()
    assert not done[:, :-1].any()
    env.set_seed(0)
    going_on = env.rollout(100, fall_right, break_when_any_done=False)
    assert going_on["next", "done"].sum() > 5 * N
    assert_td_equal(going_on[:, : stopped.shape[1]], stopped)


def test_rollout_until_all_are_done():
    """Each env plays one episode; a row whose episode is over repeats its last step."""
    env = cartpole()
    root = env.reset(seed=5)
    data = env.rollout(
        500, lean, break_when_any_done=False, break_when_all_done=True, auto_reset=False, tensordict=root
    )
    lengths = data["next", "done"].squeeze(-1).int().argmax(-1) + 1
    assert data.shape[1] == lengths.max()
    assert lengths.unique().numel() > 1
    after = env.step(lean(env.step_mdp(data[:, -1])))
    for i, length in enumerate(lengths.tolist()):
        alone = PoolEnv("CartPole-v1", 1)
        episode = alone.rollout(500, lean, auto_reset=False, tensordict=alone.reset(seed=5 + i))[0]
        assert len(episode) == length
        assert_td_equal(data[i, :length], episode)
        for repeated in data[i, length:]:
            assert_td_equal(repeated, episode[-1])
        # Its simulator did not move while the others went on.
        one_more = alone.step(lean(alone.step_mdp(episode[-1:])))
        assert_td_equal(after[i], one_more[0])


def test_rollout_in_pieces_equals_one():
    one, pieces = pendulum(seed=0), pendulum(seed=0)
    actions = [one.rand_action()["action"] for _ in range(30)]
    expected = one.rollout(30, actions=actions)
    td = pieces.reset()
    for start in (0, 10, 20):
        piece = pieces.rollout(10, actions=actions[start : start + 10], auto_reset=False, tensordict=td)
        assert_td_equal(piece, expected[:, start : start + 10])
        td = pieces.step_mdp(piece[:, -1])


def test_rollout_with_set_truncated():
    data = pendulum().rollout(5, set_truncated=True)
    assert data["next", "truncated"][:, -1].all()
    assert data["next", "done"][:, -1].all()
    assert not data["next", "done"][:, :-1].any()


def test_rollout_not_contiguous():
    contiguous = cartpole(seed=0).rollout(30, fall_right, break_when_any_done=False)
    other = cartpole(seed=0).rollout(30, fall_right, break_when_any_done=False, return_contiguous=False)
    assert_td_equal(other, contiguous)


def test_rollout_with_a_module_as_policy():
    env = pendulum(seed=0)
    policy = TensorDictModule(torch.nn.Linear(3, 1), in_keys=["observation"], out_keys=["action"])
    torch.nn.init.uniform_(policy.module.weight, -0.1, 0.1)
    data = env.rollout(20, policy)
    assert data["action"].requires_grad
    assert not data["next", "reward"].requires_grad
    assert torch.allclose(data["action"], policy.module(data["observation"]))


@pytest.mark.parametrize("make", [cartpole, pendulum], ids=["one_hot", "tanh_normal"])
def test_rollout_with_torchrls_distributions(make):
    env = make(seed=0)
    width = env.observation_spec["observation"].shape[-1]
    if make is cartpole:
        net, in_keys = torch.nn.Linear(width, 2), ["logits"]
        kwargs = {"distribution_class": OneHotCategorical}
    else:
        net, in_keys = torch.nn.Sequential(torch.nn.Linear(width, 2), _LocScale()), ["loc", "scale"]
        kwargs = {"distribution_class": TanhNormal, "distribution_kwargs": {"low": -2.0, "high": 2.0}}
    module = TensorDictModule(net, in_keys=["observation"], out_keys=in_keys)
    policy = ProbabilisticActor(module, in_keys=in_keys, spec=env.full_action_spec_unbatched, **kwargs)
    data = env.rollout(50, policy, break_when_any_done=False)
    assert data.shape == (N, 50)
    assert set(in_keys) <= set(data.keys())


class _LocScale(torch.nn.Module):
    def forward(self, x):
        return 1_000 * x[..., :1], 1 + x[..., 1:].abs()  # mostly at the bounds


def test_an_env_to_be_compiled_gives_the_same():
    kwargs = {"seed": 0, "max_episode_steps": 2}
    compiled, eager = cartpole(compile={"backend": "eager"}, **kwargs), cartpole(**kwargs)
    expected = eager.rollout(5, fall_right, break_when_any_done=False)
    assert_td_equal(compiled.rollout(5, fall_right, break_when_any_done=False), expected)
    assert expected["next", "done"].any()
