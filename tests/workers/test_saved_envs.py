"""States and pictures of envs of Python."""

import os
import threading
from functools import partial

import gymnasium
import numpy as np
import pytest
import torch
from cases import cases
from comparing import assert_same
from gymnasium.spaces import Box, Discrete
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
    cases(
        default=[partial(gymnasium.make, "CartPole-v1"), partial(GymEnv, "CartPole-v1")],
        also=[
            partial(gymnasium.make, "HalfCheetah-v5"),
            partial(GymEnv, "InvertedPendulum-v5"),
            partial(of_a_local_class, "Hopper-v5"),
        ],
    ),
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
    assert_same(run(other, root.clone()), first)
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


class Failing(Sampled):
    """Fails as its state is taken, or given."""

    def __init__(self, when, how):
        super().__init__()
        self.when, self.how = when, how

    def get_state(self):
        self.reach("get_state")
        return 0

    def set_state(self, state):
        self.reach("set_state")

    def reach(self, event):
        if event == self.when and self.how == "ends":
            os._exit(3)
        elif event == self.when:
            raise KeyError("no such thing")


ENDED = "its worker process ended with exit code 3"


@pytest.mark.parametrize(
    ("call", "how", "error", "message"),
    [
        ("set_state", "raises", ValueError, "no such thing"),
        ("get_state", "ends", EnvFailure, ENDED),
        ("set_state", "ends", EnvFailure, ENDED),
        ("get_state", "raises", EnvFailure, "no such thing"),
    ],
)
def test_a_call_with_states_that_fails_within_an_env(make_pool, call, how, error, message):
    pool = make_pool(partial(Failing, call, how), 2)
    pool.reset()
    arguments = [pool.get_state()] if call == "set_state" else []
    with pytest.raises(error, match=message) as raised:
        getattr(pool, call)(*arguments)
    assert raised.type is error
    assert error is not EnvFailure or raised.value.env_index == [0]
    pool.reset()


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


def test_an_env_that_has_drawn_with_pygame_cannot_be_saved(make_pool):
    pool = make_pool("gymnasium:CartPole-v1", 1, num_workers=1, render_mode="rgb_array")
    pool.reset()
    pool.render()
    with pytest.raises(NotImplementedError, match=r"cannot be pickled: .*pygame"):
        pool.get_state()


class Wandering(gymnasium.Env):
    """Its own states lack its random stream."""

    observation_space = gymnasium.spaces.Box(-99, 99, (1,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = 0.0
        return np.float32([0]), {}

    def step(self, action):
        self.place += self.np_random.normal()
        return np.float32([self.place]), 1.0, False, False, {}

    def get_state(self):
        return self.place

    def set_state(self, place):
        self.place = place


class WanderingFrom(Wandering):
    """Has a method of that name which is something else."""

    def get_state(self, where):
        raise NotImplementedError


class WanderingByHand(Wandering):
    """With a generator that is none of NumPy's new ones, and in one env after the other."""

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._np_random = np.random.RandomState(seed)
        self.env = Wandering() if isinstance(getattr(self, "env", None), Sampled) else Sampled()
        return np.float32([0]), {}

    def step(self, action):
        return np.float32([self.place]), 1.0, False, False, {}


@pytest.mark.parametrize("make", cases([Wandering, WanderingFrom, WanderingByHand]))
@pytest.mark.parametrize("num_workers", [0, 1])
def test_states_of_an_envs_own_go_on_with_its_random_stream(make_pool, make, num_workers):
    pool = make_pool(make, 2, num_workers=num_workers, seed=0)
    root = pool.rand_action(pool.reset())
    states = pool.get_state()
    expected = [pool.step(root.clone()) for _ in range(3)]
    pool.set_state(states)
    for one in expected:
        assert_same(pool.step(root.clone()), one)


def timed():
    return gymnasium.wrappers.TimeAwareObservation(gymnasium.make("CartPole-v1"))


def test_a_state_of_an_env_that_is_wrapped_otherwise(make_pool):
    pool, other = make_pool("gymnasium:CartPole-v1", 1), make_pool(timed, 1)
    for one in (pool, other):
        one.reset()
    with pytest.raises(
        ValueError, match=r"this state is of TimeAwareObservation\(.*, and this env is TimeLimit"
    ):
        pool.set_state(other.get_state())
    pool.rollout(3)


class Refusing(gymnasium.Env):
    """Draws what it shows at each reset; fails on action 1; takes no state."""

    observation_space, action_space = Box(0, 1000, (1,)), Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.array([self.np_random.integers(1000)], np.float32), {}

    def step(self, action):
        if action == 1:
            raise RuntimeError("it fails")
        return np.zeros(1, np.float32), 0.0, False, False, {}

    def get_state(self):
        return b"state"

    def set_state(self, state):
        raise ValueError("no such state")


@pytest.mark.parametrize("num_workers", cases([0, 1]))
def test_a_refused_state_does_not_move_an_env_that_has_failed(make_pool, num_workers):
    def next_episodes(refused):
        pool = make_pool(Refusing, 1, num_workers=num_workers, seed=0, categorical_action_encoding=True)
        root = pool.reset()
        state = pool.get_state()
        with pytest.raises(EnvFailure, match="it fails"):
            pool.step(root.set("action", torch.ones(1, dtype=torch.int64)))
        if refused:
            with pytest.raises(ValueError, match="no such state"):
                pool.set_state(state)
        return [pool.reset()["observation"].item() for _ in range(3)]

    assert next_episodes(True) == next_episodes(False)
