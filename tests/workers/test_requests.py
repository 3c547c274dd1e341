"""What a reset is given is that reset's, however it is asked for; the next call revives dead workers."""

import os
import signal

import gymnasium
import numpy as np
import pytest
from cases import cases
from gymnasium import spaces
from python_envs import WHERE

from torchrl_pool import EnvFailure


class Told(gymnasium.Env):
    """Shows the seed and the option of its last reset, 0 for none, and how many steps it has made."""

    observation_space = spaces.Box(-1e9, 1e9, (3,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.shown = np.array([seed or 0, (options or {}).get("level", 0), 0], np.float32)
        return self.shown.copy(), {}

    def step(self, action):
        self.shown[2] += 1
        return self.shown.copy(), 1.0, False, False, {}

    def pid(self):
        return os.getpid()

    def get_state(self):
        return self.shown.copy()

    def set_state(self, state):
        self.shown = state


def seen(tensordict):
    return tensordict["observation"].tolist()


@pytest.fixture(params=list(WHERE))
def pool(request, make_pool):
    return make_pool(Told, 2, **WHERE[request.param])


def test_options_of_a_refused_reset_are_given_to_no_other(pool):
    root = pool.reset()
    pool.async_step_send(pool.rand_action(root)[:1], [0])
    with pytest.raises(RuntimeError, match="in flight"):
        pool.reset(options={"level": 5})
    pool.async_step_recv(1)
    assert seen(pool.reset()) == [[0, 0, 0]] * 2
    assert seen(pool.reset(options=[{"level": 6}, None])) == [[0, 6, 0], [0, 0, 0]]
    assert seen(pool.reset()) == [[0, 0, 0]] * 2


def test_asynchronous_resets_take_seeds_and_options(pool):
    pool.async_reset_send(seed=3, options=[None, {"level": 7}])
    assert seen(pool.async_reset_recv(2)) == [[3, 0, 0], [4, 7, 0]]
    pool.async_reset_send(env_index=[1], options={"level": 8})
    assert seen(pool.async_reset_recv(1)) == [[0, 8, 0]]
    pool.async_reset_send()
    assert seen(pool.async_reset_recv(2)) == [[0, 0, 0]] * 2


def asynchronous_reset(pool, states):
    pool.async_reset_send(env_index=[1])
    assert seen(pool.async_reset_recv(1)) == [[0, 0, 0]]


def seeding(pool, states):
    pool.set_seed(3)
    assert seen(pool.reset()) == [[0, 0, 0]] * 2


def loading(pool, states):
    pool.set_state(states)
    stepped = pool.step(pool.rand_action(pool.fake_tensordict()))
    assert seen(stepped["next"]) == [[0, 0, 2]] * 2


@pytest.mark.parametrize("call", cases(default=[asynchronous_reset, seeding], also=[loading]))
def test_a_dead_worker_is_revived(make_pool, call):
    pool = make_pool(Told, 2, num_workers=2)
    _, root = pool.step_and_maybe_reset(pool.rand_action(pool.reset()))
    states = pool.get_state()
    os.kill(pool.call("pid", env_index=1)[0], signal.SIGKILL)
    pool.async_step_send(pool.rand_action(root))
    results = []
    while len(results) < 2:
        try:
            results.append(str(pool.async_step_recv(1)["env_index"].tolist()))
        except EnvFailure as failure:
            results.append(str(failure))
    assert any("env 1" in result and "SIGKILL" in result for result in results)
    call(pool, states)
