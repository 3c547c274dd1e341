"""What is found out about an env before its pool begins, and what of that its users see: nothing."""

import threading
from contextlib import closing
from functools import partial

import gymnasium
import numpy as np
import pytest
import torch
from cases import cases
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import NormalizeObservation, RecordEpisodeStatistics, TimeLimit

from torchrl_pool import EnvFailure, PoolEnv
from torchrl_pool._workers import probe
from torchrl_pool.gymnasium import PoolVectorEnv

BOX = spaces.Box(-1, 1, (2,))


class Scored(gymnasium.Env):
    """Its infos have a score, ``first`` of which are whole numbers at its reset."""

    observation_space, action_space = BOX, spaces.Discrete(3)

    def __init__(self, late=0):
        self.late = late  # steps without infos

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        return np.zeros(2, np.float32), {} if self.late else {"score": 0}

    def step(self, action):
        self.count += 1
        info = {"score": self.count / 2} if self.count > self.late else {}
        return np.zeros(2, np.float32), 1.0, False, self.count == 50, info


class Masked(Scored):
    """Allows one action."""

    def reset(self, **arguments):
        observation, info = super().reset(**arguments)
        return observation, {**info, **self.mask()}

    def mask(self):
        return {"action_mask": np.eye(3, dtype=np.int8)[1]}

    def step(self, action):
        if action != 1:
            raise ValueError(f"illegal move {action}")
        *step, info = super().step(action)
        return (*step, {**info, **self.mask()})


class Unmasked(Masked):
    """Without saying so."""

    def mask(self):
        return {}

    def step(self, action):
        raise ValueError("illegal move")


def spec_of(env, key="score"):
    """The spec of an info of this env, which its pool has looked for."""
    with closing(PoolEnv(lambda: env, 1, info_keys=[key])) as pool:
        return pool.observation_spec[tuple(key.split("/")) if "/" in key else key]


@pytest.fixture
def kind():
    class Mine(Scored):
        pass

    return Mine


class Remembers(gymnasium.Wrapper):
    """What it does, and the env within, once more."""

    def __init__(self, env, more=None):
        super().__init__(env)
        self.actions, self.again, self.more = [], env.unwrapped, more

    def step(self, action):
        self.actions.append(action)
        assert self.again is self.unwrapped
        self.last = action
        return self.env.step(action)


def test_wrappers_forget_a_trial(kind):
    within = Remembers(kind(4))
    env = Remembers(within, threading.Lock())  # of which there is no copy
    env.own_step = within.step
    assert spec_of(env).dtype is torch.float64
    assert (within.actions, env.unwrapped.count) == ([], 5)
    assert not hasattr(within, "last")
    assert len(env.actions) == 5
    assert within.again is env.again is env.unwrapped
    assert env.own_step.__self__ is within


def test_simulators_are_not_copied(kind):
    """Whose copies would end what both use."""

    class Client:
        ended = 0

        def __del__(self):
            Client.ended += 1

    env = Remembers(kind(4))
    env.unwrapped.client = env.client = Client()
    spec_of(env)
    assert Client.ended == 0
    assert env.client is env.unwrapped.client


def test_nobody_is_tried_for_nothing(kind):
    env = kind(40)
    with closing(PoolEnv(lambda: env, 1)):
        assert not hasattr(env, "count")


def test_of_all_envs_one_is_tried(kind):
    tried = []

    class Counted(kind):
        def step(self, action):
            tried.append(self)
            return super().step(action)

    other = partial(Counted)
    for make, count in ((Counted, 1), ([Counted, other, Counted, other], 1)):
        tried.clear()
        with closing(PoolEnv(make, 4, num_workers=0, info_keys=["score"])) as env:
            env.reset()
        assert len(tried) == count


@pytest.mark.parametrize("late", cases([3, 48, 49]))
def test_infos_that_come_late_are_found(kind, late):
    spec = spec_of(kind(late))
    assert (spec.dtype, spec.shape) == (torch.float64, (1,))


@pytest.mark.parametrize(("most", "seconds"), cases([(3, 10.0), (1_000, 0.0)]))
def test_infos_are_not_waited_for_without_end(kind, monkeypatch, most, seconds):
    monkeypatch.setattr(probe, "MOST_STEPS", most)
    monkeypatch.setattr(probe, "MOST_SECONDS", seconds)
    env = kind(40)
    with pytest.raises(EnvFailure, match="'score': neither reset nor step returned it"):
        spec_of(env)
    assert env.count <= 3


def test_infos_of_an_episode_that_is_over_are_not_there(kind):
    env = kind(50)
    with pytest.raises(EnvFailure, match="there is nothing"):
        spec_of(env)
    assert env.count == 50


@pytest.mark.parametrize("num_workers", cases([0, 1]))
def test_masks_are_heeded(num_workers):
    """Of an env whose score is not there before a second step, which two of three actions would not make."""
    for _ in range(4):
        env = PoolEnv(partial(Masked, 1), 2, num_workers=num_workers, info_keys=["action_mask", "score"])
        with closing(env):
            assert env.reset()["action_mask"].tolist() == [[0, 1, 0]] * 2


def test_an_env_that_allows_no_step_tells_in_its_reset():
    assert spec_of(Unmasked()).dtype is torch.int64
    with pytest.raises(EnvFailure, match="illegal move"):
        spec_of(Unmasked(), "nothing")


@pytest.mark.parametrize("num_workers", cases([0, 1]))
def test_wrappers_see_no_trial(num_workers):
    def make():
        return NormalizeObservation(gymnasium.make("CartPole-v1"))

    with (
        closing(SyncVectorEnv([make] * 2, autoreset_mode=AutoresetMode.SAME_STEP)) as theirs,
        closing(PoolVectorEnv(lambda: Informed(make()), 2, num_workers=num_workers, info_keys=["t"])) as ours,
    ):
        assert np.array_equal(ours.reset(seed=3)[0], theirs.reset(seed=3)[0])


class Informed(gymnasium.Wrapper):
    def step(self, action):
        *step, info = self.env.step(action)
        return (*step, {**info, "t": 1.5})


def test_statistics_of_whole_episodes():
    def make():
        return RecordEpisodeStatistics(gymnasium.make("CartPole-v1"))

    keys = ["episode/r", "episode/l", "episode_reward", "step_count"]
    with closing(PoolEnv(make, 2, num_workers=1, info_keys=keys)) as env:
        steps = env.rollout(60, break_when_any_done=False)["next"]
    done = steps["done"].squeeze(-1)
    assert done.any()
    assert torch.equal(steps["episode", "r"][done].float(), steps["episode_reward"][done].flatten())
    assert torch.equal(steps["episode", "l"][done], steps["step_count"][done].flatten())
    assert not steps["episode", "r"][~done].any()


def test_statistics_of_another_name():
    def make():
        return RecordEpisodeStatistics(gymnasium.make("CartPole-v1"), stats_key="mine")

    with closing(PoolEnv(make, 2, num_workers=1, info_keys=["mine/l"])) as env:
        steps = env.rollout(60, break_when_any_done=False)["next"]
    assert (steps["mine", "l"] > 0).equal(steps["done"].squeeze(-1))
    with pytest.raises(EnvFailure, match="'episode/r': neither reset nor step returned it"):
        PoolEnv(make, 2, num_workers=1, info_keys=["episode/r"])


@pytest.mark.parametrize("num_workers", cases([0, 2]))
def test_the_first_env_tells_for_all(num_workers):
    """What another one does not tell is zero, as in steps without that info."""
    make = [Scored, partial(Scored, 100), Scored]
    with closing(PoolEnv(make, 3, num_workers=num_workers, info_keys=["score"])) as env:
        assert (env.rollout(20)["next", "score"].flatten(1) != 0).any(1).tolist() == [True, False, True]


def test_statistics_are_known_where_no_episode_ends(kind, monkeypatch):
    monkeypatch.setattr(probe, "MOST_STEPS", 3)
    keys = ["episode/r", "episode/l", "episode/t"]
    found = [spec_of(RecordEpisodeStatistics(kind()), key).dtype for key in keys]
    assert found == [torch.float64, torch.int64, torch.float64]


def test_rewards_of_other_shapes_make_other_statistics():
    class Arrays(Scored):
        def step(self, action):
            observation, reward, *rest = super().step(action)
            return observation, np.array([reward]), *rest

    def make():
        return RecordEpisodeStatistics(Arrays())

    with closing(PoolEnv(make, 1, num_workers=0, info_keys=["episode/r"])) as env:
        assert env.rollout(60)["next", "episode", "r"].flatten().tolist() == [0.0] * 49 + [50.0]


# ---- what else is not asked of an env that it need not have


class NoOptions(Scored):
    def reset(self, seed=None):
        return super().reset(seed=seed)


class NoSeed(Scored):
    def reset(self):
        return super().reset()


@pytest.mark.parametrize("num_workers", cases([0, 1]))
def test_resets_are_given_what_there_is(num_workers):
    for kind in NoOptions, NoSeed:
        with closing(PoolEnv(kind, 2, num_workers=num_workers)) as env:
            assert env.rollout(60, break_when_any_done=False)["next", "truncated"].any()
            with pytest.raises(EnvFailure, match="unexpected keyword argument 'options'"):
                env.reset(options={"a": 1})


class Demanding(Scored):
    def reset(self, seed, options):
        assert seed is options is None
        return super().reset()


def test_resets_are_given_all_that_they_take():
    with closing(PoolEnv(Demanding, 2, num_workers=0)) as env:
        env.reset()


class Own(Scored):
    def get_state(self):
        return self.count

    def set_state(self, state):
        self.count = state


class Forwards(gymnasium.Wrapper):
    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return self.env.get_wrapper_attr(name)


def test_an_env_may_pass_on_its_simulators_state():
    class Simulated(Scored):
        def __init__(self):
            super().__init__()
            self.simulator, self.lock = Own(), threading.Lock()

        def __getattr__(self, name):
            if name not in ("get_state", "set_state"):
                raise AttributeError(name)
            return getattr(self.simulator, name)

        def reset(self, **arguments):
            return self.simulator.reset(**arguments)

        def step(self, action):
            return self.simulator.step(action)

    with closing(PoolEnv(Simulated, 1, num_workers=0)) as env:
        env.rollout(3)
        state = env.get_state()
        env.rollout(5)
        env.set_state(state)
        assert env.get_attr("simulator")[0].count == 3


@pytest.mark.parametrize("wrap", cases([lambda env: env, Forwards]))
def test_what_a_wrapper_forwards_is_not_its_state(wrap):
    with closing(PoolEnv(lambda: wrap(TimeLimit(Own(), 8)), 1, num_workers=0)) as env:
        root = env.reset()
        for _ in range(3):
            _, root = env.step_and_maybe_reset(env.rand_action(root))
        state = env.get_state()
        lengths = []
        for _ in range(2):
            steps = env.rollout(20, auto_reset=False, tensordict=root.clone())
            lengths.append(steps.shape[1])
            env.reset()
            env.set_state(state)
    assert lengths == [5, 5]


@pytest.mark.parametrize("name", cases(default=["Nothing-v0", "Nowhere/Nothing-v0"], also=["CartPole-v77"]))
def test_envs_are_registered_where_they_are_made(name):
    with pytest.raises(EnvFailure, match="import it within the function that makes the env"):
        PoolEnv(f"gymnasium:{name}", 1, num_workers=1)
    with pytest.raises(EnvFailure, match="register what cannot be pickled, too"):
        PoolEnv(lambda: gymnasium.make(name), 1, num_workers=1)
    with pytest.raises(EnvFailure) as raised:
        PoolEnv(lambda: gymnasium.make(name), 1, num_workers=0)
    assert "register" not in str(raised.value)


def test_a_name_is_the_pools_where_it_needs_it():
    def make():
        return gymnasium.wrappers.TransformObservation(
            gymnasium.make("CartPole-v1"),
            lambda observation: {"respawned": observation},
            spaces.Dict(respawned=spaces.Box(-9, 9, (4,))),
        )

    with closing(PoolEnv(make, 2, num_workers=1)) as env:
        assert env.rollout(3)["respawned"].shape == (2, 3, 4)
    with pytest.raises(ValueError, match="'respawned' is the name of two entries"):
        PoolEnv(make, 2, num_workers=1, respawn=True)
