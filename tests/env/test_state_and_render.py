import struct

import pytest
import torch
from cases import cases
from own_tasks import OWN_TASKS

from torchrl_pool import PoolEnv, list_tasks, task_info

# Of the Atari games, which are one program with many cartridges, one.
TASKS = [*(task for task in OWN_TASKS if not task.startswith("ALE/")), "ALE/Pong-v5"]


def steps(env, root, actions):
    out = []
    for action in actions:
        data, root = env.step_and_maybe_reset(root.update(action))
        out.append(data["next"].clone())
    return torch.stack(out)


@pytest.mark.parametrize(
    "task", cases(default=["Taxi-v4", "Reacher-v5"], also=["CartPole-v1", "ALE/Pong-v5"])
)
def test_equal_envs_have_equal_states(task):
    """Byte by byte: nothing in them that nobody wrote."""
    pools = [PoolEnv(task, 3, seed=0) for _ in range(2)]
    actions = [pools[0].rand_action().select("action") for _ in range(10)]
    for pool in pools:
        steps(pool, pool.reset(), actions)
    assert pools[0].get_state() == pools[1].get_state()


def test_state_of_some_envs():
    env = PoolEnv("Pendulum-v1", 4, seed=0)
    root = env.reset()
    action = env.full_action_spec.zero()["action"]
    (state,) = env.get_state(2)
    first = env.step(root.clone().set("action", action))["next", "observation"]
    env.set_state(state, env_index=[2, 3])
    second = env.step(root.clone().set("action", action))["next", "observation"]
    assert second[2].equal(first[2])
    assert second[3].equal(first[2])
    assert not second[0].equal(first[0])


@pytest.mark.parametrize(
    "task",
    cases(
        default=["Acrobot-v1", "CartPole-v0", "MountainCarContinuous-v0", "Pendulum-v1"],
        also=list_tasks("classic"),
    ),
)
def test_pictures_show_the_state(task):
    env = PoolEnv(task, 3, seed=0)
    root = env.reset()
    before = env.render()
    assert before.dtype is torch.uint8
    assert before.shape[0] == 3
    assert before.shape[-1] == 3
    assert before.min() < 100
    assert before.max() == 255
    for _ in range(20):
        root = env.step_and_maybe_reset(env.rand_action(root))[1]
    after = env.render([0, 2])
    assert after.shape == (2, *before.shape[1:])
    assert not after[0].equal(before[0])
    assert env.render(2)[0].equal(after[1])


def test_what_is_no_number_is_drawn_nowhere():
    env = PoolEnv("CartPole-v1", 1)
    root = env.reset(options={"low": 0, "high": 1e308})
    for _ in range(3):
        root = env.step(env.rand_action(root))["next"].exclude("reward", "done", "terminated", "truncated")
    assert not root["observation"].isfinite().all()
    assert env.render().shape == (1, 400, 600, 3)


@pytest.mark.parametrize(
    "task",
    cases(
        default=["BipedalWalker-v3", "CarRacing-v3", "LunarLander-v3", "LunarLanderContinuous-v3"],
        also=[task for task in OWN_TASKS if task_info(task).family == "box2d"],
    ),
)
def test_the_history_of_an_episode_is_bounded(task):
    """Of a Box2D task a state is the episode's actions: beyond 100,000 there is none until the next reset."""
    most = 100_000 if task == "LunarLander-v3" else 1000
    with PoolEnv(task, 1, seed=0, max_episode_steps=None) as env:
        root = env.step(env.rand_action(env.reset()))
        (state,) = env.get_state()
        size = {"LunarLander": 8, "BipedalWalker": 16, "CarRacing": 12}
        size = next(bytes for name, bytes in size.items() if task.startswith(name))

        def of_length(count):
            return state[: -size - 8] + struct.pack("=Q", count) + state[-size:] * count

        env.set_state(of_length(most))
        assert env.get_state() == [of_length(most)]
        if most < 100_000:
            return
        with pytest.raises(ValueError, match="too many actions"):
            env.set_state(of_length(most + 1))
        env.step(root)
        with pytest.raises(NotImplementedError, match="more than 100,000 actions has no saved state"):
            env.get_state()
        env.render()
        env.set_state(state)  # in its place is an env that has one
        assert env.get_state() == [state]
        env.set_state(of_length(most))
        env.step(root)
        env.reset()
        env.get_state()
