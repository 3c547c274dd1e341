"""Envs within wrappers of TorchRL's and PettingZoo's: attributes, states, names and flags."""

import threading

import gymnasium
import numpy as np
import pytest
import torch
from cases import cases
from tensordict import TensorDict
from torchrl.data import Binary, Bounded, Composite, NonTensor, Unbounded
from torchrl.envs import EnvBase, ExcludeTransform, GymWrapper, SerialEnv, StepCounter, TransformedEnv

from torchrl_pool import EnvFailure, single_envs


class Own(EnvBase):
    """What it pays is an attribute of it; its state is in the tensordict."""

    bonus = 1.0

    def __init__(self, num_flags=1, *, agents=False, leaves_out=False):
        super().__init__()
        self.observation_spec = Composite(h=Unbounded((1,)), other=Unbounded((1,)))
        self.state_spec = Composite(h=Unbounded((1,)))
        self.action_spec = Bounded(-1, 1, (1,))
        self.reward_spec = Unbounded((1,))
        flags = {key: Binary(num_flags, (num_flags,), dtype=torch.bool) for key in ("done", "terminated")}
        if agents:
            flags["agents"] = Composite({key: Binary(1, (1,), dtype=torch.bool) for key in flags})
        self.full_done_spec = Composite(flags)
        self.agents, self.leaves_out = agents, leaves_out

    def _set_seed(self, seed): ...

    def _reset(self, tensordict=None, **kwargs):
        return TensorDict({"h": torch.zeros(1), "other": torch.ones(1)})

    def _step(self, tensordict):
        flags = {"done": torch.zeros(1, dtype=torch.bool), "terminated": torch.zeros(1, dtype=torch.bool)}
        out = {"h": tensordict["h"] + 1, "reward": torch.tensor([self.bonus]), **flags}
        if self.agents:
            out["agents"] = TensorDict(flags)
        return TensorDict(out if self.leaves_out else {**out, "other": torch.ones(1)})


class Keeping(Own):
    """It has a state of its own, beside the one in the tensordict."""

    kept = 3

    def get_state(self):
        return self.kept

    def set_state(self, state):
        self.kept = state


def keeping_by_attributes():
    """It cannot be pickled, and got its methods after it was made."""
    env = Own()
    env.lock, env.kept = threading.Lock(), 3
    env.get_state = lambda: env.kept
    env.set_state = lambda state: setattr(env, "kept", state)
    return env


class Counting(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-99, 99, (1,))
    action_space = gymnasium.spaces.Box(-1, 1, (1,))
    count = 0.0

    def reset(self, *, seed=None, options=None):
        self.count = 0.0
        return self.seen(), {}

    def step(self, action):
        self.count += 1
        return self.seen(), 1.0, False, False, {}

    def seen(self):
        return np.array([self.count], np.float32)

    def get_state(self):
        return self.count

    def set_state(self, state):
        self.count = state


class Coloured(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0, 255, (4, 5, 3), np.uint8)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.np_random.integers(0, 255, (4, 5, 3), np.uint8), {}

    def step(self, action):
        return self.np_random.integers(0, 255, (4, 5, 3), np.uint8), 0.0, False, False, {}


def counted():
    return TransformedEnv(Own(), StepCounter())


def simulating():
    """Within it there is something that is no env."""
    env = Own()
    env._env = np.zeros(3)
    return env


@pytest.mark.parametrize("make", cases(default=[counted, simulating], also=[Own]))
def test_attributes_are_set_where_they_are(make_pool, make):
    pool = make_pool(make, 2)
    pool.set_attr("bonus", 5.0)
    assert pool.get_attr("bonus") == [5.0, 5.0]
    assert (pool.rollout(2)["next", "reward"] == 5).all()
    pool.set_attr("remark", "new")
    assert pool.get_attr("remark") == ["new", "new"]


def test_attributes_of_pettingzoos_envs(make_pool):
    pettingzoo = pytest.importorskip("pettingzoo")

    class Two(pettingzoo.ParallelEnv):
        metadata = {"name": "two"}  # noqa: RUF012
        possible_agents = ["a_0", "a_1"]  # noqa: RUF012
        bonus = 1.0

        def observation_space(self, agent):
            return gymnasium.spaces.Box(-1, 1, (1,))

        def action_space(self, agent):
            return gymnasium.spaces.Discrete(2)

        def reset(self, seed=None, options=None):
            self.agents = list(self.possible_agents)
            return {agent: np.zeros(1, np.float32) for agent in self.agents}, {a: {} for a in self.agents}

        def step(self, actions):
            def each(value):
                return dict.fromkeys(self.agents, value)

            seen = {agent: np.zeros(1, np.float32) for agent in self.agents}
            return seen, each(self.bonus), each(False), each(False), {agent: {} for agent in self.agents}

    pool = make_pool(Two, 2)
    pool.set_attr("bonus", 5.0)
    assert (pool.rollout(1)["next", "a", "reward"] == 5).all()


@pytest.mark.parametrize(
    "make", cases([Keeping, keeping_by_attributes, lambda: TransformedEnv(Keeping(), StepCounter())])
)
def test_states_come_with_what_is_carried(make_pool, make):
    pool = make_pool(make, 2)
    pool.rollout(5)
    states = pool.get_state()
    root = pool.reset()
    pool.set_attr("kept", 4)
    pool.set_state(states)
    root["action"] = torch.zeros(2, 1)
    assert pool.step(root)["next", "h"].tolist() == [[6], [6]]
    assert pool.get_attr("kept") == [3, 3]


@pytest.mark.parametrize(
    "make",
    cases(
        default=[Counting, lambda: GymWrapper(Counting())],
        also=[lambda: TransformedEnv(GymWrapper(Counting()))],
    ),
)
def test_states_of_envs_within_torchrls_wrappers(make_pool, make):
    pool = make_pool(make, 2)
    pool.rollout(5)
    states = pool.get_state()
    root = pool.reset()
    pool.set_state(states)
    root["action"] = torch.zeros(2, 1)
    assert pool.step(root)["next", "observation"].tolist() == [[6], [6]]


def test_pictures_are_named_as_gymenv_names_them(make_pool):
    pool, reference = make_pool(Coloured, 2), SerialEnv(2, lambda: GymWrapper(Coloured()))
    for env in (pool, reference):
        env.set_seed(0)
    one, other = pool.rollout(3), reference.rollout(3)
    assert torch.equal(one["next", "pixels"], other["next", "pixels"])
    assert set(pool.observation_spec.keys()) == {"pixels"}


def test_flags_that_a_reset_leaves_out_are_unset(make_pool):
    pool = make_pool(lambda: Own(agents=True), 2)
    assert not pool.reset()["agents", "done"].any()
    assert not pool.rollout(3)["next", "agents", "terminated"].any()


def test_what_does_not_fit_is_named(make_pool):
    with pytest.raises(EnvFailure, match=r"'done': expected one flag for the env, got shape \(2,\)"):
        make_pool(lambda: Own(2), 2)
    pool = make_pool(lambda: Own(leaves_out=True), 2)
    with pytest.raises(EnvFailure, match="the env returned no 'other'"):
        pool.rollout(2)


class Speaking(Own):
    """An observation of it is no tensor."""

    def __init__(self):
        super().__init__()
        self.observation_spec["said"] = NonTensor(())

    def _reset(self, tensordict=None, **kwargs):
        return super()._reset(tensordict).set("said", "hello")

    def _step(self, tensordict):
        return super()._step(tensordict).set("said", "so")


def test_what_is_no_tensor_is_left_out_within_the_env(make_pool):
    with pytest.raises(EnvFailure, match=r"'said': expected tensors .*, got NonTensor .*ExcludeTransform"):
        make_pool(Speaking, 2)
    pool = make_pool(lambda: TransformedEnv(Speaking(), ExcludeTransform("said")), 2)
    assert "said" not in pool.rollout(3).keys(True)


def test_batches_of_envs_are_refused_with_what_to_give(make_pool):
    with pytest.raises(
        EnvFailure, match=r"batch_size \(2,\): pass a callable that makes one of its envs, and num_envs"
    ):
        make_pool(lambda: SerialEnv(2, Own), 2)


def test_what_stands_for_views_and_a_start(make_pool):
    pool = make_pool(Own, 2)
    pool.start()
    pool.start()  # which changes nothing
    assert pool.get_attr("bonus") == [1.0, 1.0]
    with pytest.raises(TypeError, match=r"single_envs\(env\)\[1\]\(\) is one of them"):
        pool[1]
    assert single_envs(pool)[1]().reset().batch_size == ()


def test_several_rewards_are_told_of_by_a_space(make_pool):
    class Paying(Counting):
        def step(self, action):
            observation, _, *rest = super().step(action)
            return observation, np.array([1.0, 2.0]), *rest

    with pytest.raises(
        EnvFailure, match=r"'reward': expected float32 \[1\], got float64 \[2\] .*reward_space"
    ):
        make_pool(Paying, 2, num_workers=0).rollout(1)

    class Telling(Paying):
        reward_space = gymnasium.spaces.Box(0, 9, (2,))

    assert (make_pool(Telling, 2).rollout(1)["next", "reward"] == torch.tensor([1.0, 2.0])).all()
