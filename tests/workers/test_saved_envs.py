"""States and pictures of envs of Python."""

import os
import threading
from functools import partial

import gymnasium
import numpy as np
import pytest
import torch
from comparing import assert_td_equal
from opengl import missing_opengl
from python_envs import Sampled
from torchrl.envs import GymEnv

from torchrl_pool import EnvFailure


def of_a_local_class(name):
    class Local(gymnasium.Wrapper):
        pass

    return Local(gymnasium.make(name))


def pong():
    import ale_py

    gymnasium.register_envs(ale_py)
    return gymnasium.make("ALE/Pong-v5")


@pytest.mark.parametrize(
    "make",
    [
        partial(gymnasium.make, "CartPole-v1"),
        partial(GymEnv, "CartPole-v1"),
        # These pickle themselves as what they were made with.
        partial(gymnasium.make, "HalfCheetah-v5"),
        partial(GymEnv, "InvertedPendulum-v5"),
        partial(of_a_local_class, "Hopper-v5"),
    ],
)
def test_states(make_pool, make):
    """A restored env goes on bit for bit, in another pool too."""
    pool, other = make_pool(make, 3, info_keys=[]), make_pool(make, 3, num_workers=0)
    pool.set_seed(0)
    root = pool.rollout(5, break_when_any_done=False)[:, -1]["next"].exclude("reward")
    states = pool.get_state()
    torch.manual_seed(0)
    actions = [pool.action_spec.rand() for _ in range(30)]

    def run(env, root):
        seen = []
        for action in actions:
            root["action"] = action
            data, root = env.step_and_maybe_reset(root)
            seen.append(data["next"].clone())
        return torch.stack(seen)

    first = run(pool, root.clone())
    other.set_state(states)
    assert_td_equal(run(other, root.clone()), first)
    cannot = make_pool(with_lock, 1)
    cannot.reset()
    with pytest.raises(NotImplementedError, match="cannot be pickled"):
        cannot.get_state()


class Helped(Sampled, gymnasium.utils.EzPickle):
    """Keeps something in a slot, and calls what helps it."""

    __slots__ = ("steps_in_all",)

    def __init__(self):
        super().__init__()
        gymnasium.utils.EzPickle.__init__(self)
        self.steps_in_all = 0

    def __getstate__(self):
        return super().__getstate__()

    def step(self, action):
        self.steps_in_all += 1
        return super().step(action)


def test_states_of_envs_with_slots_and_methods_of_their_own(make_pool):
    pool, other = make_pool(Helped, 2), make_pool(Helped, 2, num_workers=0)
    pool.rollout(7, break_when_any_done=False)
    other.reset()
    other.set_state(pool.get_state())
    assert other.get_attr("steps_in_all") == pool.get_attr("steps_in_all") == [7, 7]


def drawn_hopper():
    os.environ["MUJOCO_GL"] = "egl"
    return gymnasium.make("Hopper-v5", render_mode="rgb_array", width=32, height=24)


def test_pictures_of_mujoco_and_states_after_them(make_pool):
    if missing := missing_opengl("Hopper-v5"):
        pytest.skip(missing)
    pool = make_pool(drawn_hopper, 1, num_workers=1)
    pool.reset()
    picture = pool.render()
    assert picture.shape == (1, 24, 32, 3)
    pool.set_state(pool.get_state())
    assert torch.equal(pool.render(), picture)


class UpsideDown(Sampled):
    def render(self):
        return np.arange(4 * 6 * 3, dtype=np.uint8).reshape(4, 6, 3)[::-1]


def test_pictures_that_are_upside_down_in_memory(make_pool):
    pool = make_pool(UpsideDown, 1, num_workers=0)
    pool.reset()
    assert (pool.render()[0].numpy() == UpsideDown().render()).all()


def test_what_is_pickled_anew_and_cannot_be_pickled(make_pool):
    pool = make_pool(pong, 1)
    pool.reset()
    with pytest.raises(NotImplementedError, match=r"env 0 .*: it has no get_state.*cannot be pickled.*ALE"):
        pool.get_state()


def with_lock():
    env = Sampled()
    env.lock = threading.Lock()
    return env


def test_pictures(make_pool):
    pool = make_pool(partial(gymnasium.make, "CartPole-v1", render_mode="rgb_array"), 3)
    pool.reset()
    pictures = pool.render([0, 2])
    assert pictures.shape == (2, 400, 600, 3)
    assert pictures.dtype is torch.uint8
    assert pictures.float().std() > 0
    plain = make_pool(Sampled, 1)
    plain.reset()
    with pytest.raises(EnvFailure, match="NotImplementedError"):
        plain.render()
