"""The helpers for authors of plugins find what they are there to find."""

import gymnasium
import numpy as np
import pytest
import torch
from building import build_plugin
from cases import cases
from contract import OF_PLUGINS
from gymnasium.wrappers import TimeLimit

from torchrl_pool import EnvFailure, PoolEnv, load_plugin
from torchrl_pool.testing import assert_same_trajectories, check_plugin


@pytest.fixture(scope="module", autouse=True)
def _plugins():
    for name in ("liar", "walk", "fault"):
        load_plugin(build_plugin(name))


def test_an_honest_task_passes():
    assert check_plugin("Liar-v0", steps=30) == [name for name in OF_PLUGINS if name != "pictures"]


def test_a_task_without_states_passes():
    without = ("states", "moved states", "infos", "actions outside of their bounds", "pictures")
    assert check_plugin("Walk-v0") == [name for name in OF_PLUGINS if name not in without]


@pytest.mark.parametrize(
    ("lie", "message"),
    cases(
        default=[
            ("forgets at reset", "written bytes: reset does not write element 3 of 'vector'"),
            ("writes too much", "written bytes: step writes outside the row of 'vector'"),
            ("leaves its bounds", "step writes values to 'vector' that its spec does not admit: .*1.5"),
            (
                "invents a category",
                r"to 'choice' .* admit: \[\[1, 5\]\] \(expected one of 0 to 2, one of 0 to 4\)",
            ),
            ("knows more than yes and no", r"to 'late' .* admit: \[2\] \(expected 0 or 1\)"),
            ("ignores its seed", "reset writes .* to 'vector', and .* in a second run with the same seed"),
            ("shares", "step writes .* to 'vector', and .* in a second run with the same seed and actions"),
            ("moves when it is asked", "infos: envs without infos and with them, step 0: .*'vector'"),
        ],
        also=[
            (
                "forgets at step",
                r"step does not write element 3 of 'vector', which its spec says is float32 \[4\]",
            ),
            (
                "forgets an info",
                r"written bytes: reset does not write element 2 of 'extra', .* float64 \[2, 2\]",
            ),
            ("trusts an action", "actions outside of their bounds: step writes outside the row of 'vector'"),
            ("refuses an action", "actions outside of their bounds: .*a place beyond 3"),
            ("saves too little", "states: an env whose state is restored"),
            ("saves too little of its infos", "states: an env whose state is restored, step 0: .*'extra'"),
        ],
    ),
)
def test_lies_are_found(lie, message):
    with pytest.raises(AssertionError, match=f"Liar-v0: .*{message}"):
        check_plugin("Liar-v0", lie=lie)


@pytest.mark.parametrize(
    ("task", "message"),
    cases(
        [
            ("Shadowed-v0", "'max_episode_steps' cannot be given: PoolEnv has an argument of that name"),
            ("Twice-v0", "'goal' is the name of two options"),
            ("OutOfRange-v0", r"'goal': expected a number in \[0, inf\], got -3"),
        ]
    ),
)
def test_declarations_that_nobody_can_use_are_found(task, message):
    load_plugin(build_plugin("misdeclared"))
    with pytest.raises(AssertionError, match=f"{task}: declarations: .*{message}"):
        check_plugin(task, steps=5)


def test_a_category_that_does_not_exist_fails_its_env():
    """In one-hot form it could not be shown; as a number it is the task's own affair."""
    env = PoolEnv("Liar-v0", 2, env_options=[{}, {"lie": "invents a category"}])
    with pytest.raises(EnvFailure, match="the env wrote 5 to 'choice', expected one of 0 to 4") as caught:
        env.rollout(2)
    assert caught.value.env_index == [1]


def test_checking_leaves_torchs_generator_alone():
    torch.manual_seed(3)
    expected = torch.rand(3)
    torch.manual_seed(3)
    check_plugin("Walk-v0", steps=5)
    assert torch.equal(torch.rand(3), expected)


# ---- twins


class WalkTwin(gymnasium.Env):
    """tests/plugins/walk.cc in Python, right or wrong."""

    def __init__(self, goal=3.0, wrong=None):
        self.goal, self.wrong = goal, wrong

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = self.np_random.normal(0, 0.5)
        return self._observe(), {}

    def step(self, action):
        self.x += 1 if action == 1 else -1
        if self.wrong == "rounding":
            self.x = np.nextafter(self.x, 10)
        reward = -1.5 if self.wrong == "reward" else -1
        truncated = self.wrong == "truncated" and abs(self.x) > 2
        return self._observe(), reward, self.x >= self.goal, truncated, {}

    def _observe(self):
        if self.wrong == "name":
            return {"position": np.array([self.x])}
        return np.array([self.x], np.float32 if self.wrong == "dtype" else np.float64)


def twin(**kwargs):
    return lambda: TimeLimit(WalkTwin(**kwargs), 20)


def test_a_faithful_twin_passes():
    rollouts = assert_same_trajectories("Walk-v0", twin(), steps=100, seeds=(0, 5))
    assert [rollout.shape for rollout in rollouts] == [(3, 100)] * 2
    for flag in ("terminated", "truncated"):
        assert all(rollout["next", flag].any() for rollout in rollouts)
    assert_same_trajectories("Walk-v0", twin(goal=1.0), steps=50, goal=1.0)
    assert_same_trajectories("Walk-v0", lambda: WalkTwin(), steps=50, max_episode_steps=None)


@pytest.mark.parametrize(
    ("kwargs", "message"),
    cases(
        default=[
            (
                {"wrong": "rounding"},
                "Walk-v0, seed 0, next entries of step 0, env 0, 'observation': the pool has",
            ),
            ({"wrong": "dtype"}, r"first root, .*: the pool has float64 \[1\], the twin float32 \[1\]"),
            ({"wrong": "name"}, "the twin observes 'position', the pool"),
            ({"goal": 2.0}, "'terminated': the pool has"),
        ],
        also=[
            ({"wrong": "reward"}, r"env 0, 'reward': the pool has \[-1.\], the twin \[-1.5\]"),
            ({"wrong": "truncated"}, r"'truncated': the pool has \[False\], the twin \[ ?True\]"),
        ],
    ),
)
def test_an_unfaithful_twin_is_found(kwargs, message):
    with pytest.raises(AssertionError, match=message):
        assert_same_trajectories("Walk-v0", twin(**kwargs), steps=100)


def test_infos_are_compared():
    class Steps(gymnasium.Env):
        def __init__(self, ahead):
            self.ahead = ahead

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.steps = 0
            return self._observe(), {"steps": 0}

        def step(self, action):
            self.steps += 1
            return self._observe(), action[0], False, False, {"steps": self.steps + self.ahead}

        def _observe(self):
            return np.array([self.np_random.random(), self.steps], np.float32)

    assert_same_trajectories("Fault-v0", lambda: TimeLimit(Steps(0), 50), steps=60, info_keys=["steps"])
    with pytest.raises(AssertionError, match="step 0, env 0, 'steps': the pool has 1, the twin 2"):
        assert_same_trajectories("Fault-v0", lambda: TimeLimit(Steps(1), 50), info_keys=["steps"])
