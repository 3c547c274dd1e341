"""Rollouts: of any kind that EnvBase.rollout knows, with any kind of policy, compiled or not."""

import torch
from comparing import assert_same
from small_envs import N, cartpole, fall_right, lean, pendulum
from tensordict.nn import TensorDictModule

from torchrl_pool import PoolEnv


def test_rollout_stops_at_the_first_done():
    env = cartpole(seed=0)
    stopped = env.rollout(100, fall_right, break_when_any_done=True)
    done = stopped["next", "done"].squeeze(-1)
    assert done[:, -1].any()
    assert not done[:, :-1].any()
    env.set_seed(0)
    going_on = env.rollout(100, fall_right, break_when_any_done=False)
    assert going_on["next", "done"].sum() > 5 * N
    assert_same(going_on[:, : stopped.shape[1]], stopped)


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
        assert_same(data[i, :length], episode)
        for repeated in data[i, length:]:
            assert_same(repeated, episode[-1])
        # Its simulator did not move while the others went on.
        one_more = alone.step(lean(alone.step_mdp(episode[-1:])))
        assert_same(after[i], one_more[0])


def test_rollout_in_pieces_equals_one():
    one, pieces = pendulum(seed=0), pendulum(seed=0)
    actions = [one.rand_action()["action"] for _ in range(30)]
    expected = one.rollout(30, actions=actions)
    td = pieces.reset()
    for start in (0, 10, 20):
        piece = pieces.rollout(10, actions=actions[start : start + 10], auto_reset=False, tensordict=td)
        assert_same(piece, expected[:, start : start + 10])
        td = pieces.step_mdp(piece[:, -1])


def test_rollout_with_set_truncated():
    data = pendulum().rollout(5, set_truncated=True)
    assert data["next", "truncated"][:, -1].all()
    assert data["next", "done"][:, -1].all()
    assert not data["next", "done"][:, :-1].any()


def test_rollout_with_a_module_as_policy():
    env = pendulum(seed=0)
    policy = TensorDictModule(torch.nn.Linear(3, 1), in_keys=["observation"], out_keys=["action"])
    torch.nn.init.uniform_(policy.module.weight, -0.1, 0.1)
    data = env.rollout(20, policy)
    assert data["action"].requires_grad
    assert not data["next", "reward"].requires_grad
    assert torch.allclose(data["action"], policy.module(data["observation"]))


def test_an_env_to_be_compiled_gives_the_same():
    kwargs = {"seed": 0, "max_episode_steps": 2}
    compiled, eager = cartpole(compile={"backend": "eager"}, **kwargs), cartpole(**kwargs)
    expected = eager.rollout(5, fall_right, break_when_any_done=False)
    assert_same(compiled.rollout(5, fall_right, break_when_any_done=False), expected)
    assert expected["next", "done"].any()
