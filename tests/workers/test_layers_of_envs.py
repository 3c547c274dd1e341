"""What lies in the layers of an env: attributes, methods, and what transforms within have learned."""

import gymnasium
import numpy as np
import pytest
import torch
from cases import cases
from torchrl.envs import (
    Compose,
    GymEnv,
    GymWrapper,
    PendulumEnv,
    RewardSum,
    SerialEnv,
    StepCounter,
    TransformedEnv,
    VecNorm,
    VecNormV2,
)

from torchrl_pool import EnvFailure, PoolEnv


class Levelled(GymEnv):
    """A layer of TorchRL's with an attribute, a method and a property of its own."""

    level = 4.0
    _given = 1.0

    @property
    def given(self):
        return self._given

    @given.setter
    def given(self, value):
        self._given = 2 * value

    def hello(self, name="you"):
        return f"{name}: level {self.level:g}"

    def _step(self, tensordict):
        return super()._step(tensordict).set("reward", torch.tensor([self.level]))


class Paid(gymnasium.Wrapper):
    bonus = 1.0

    def step(self, action):
        observation, _, *rest = self.env.step(action)
        return observation, self.bonus, *rest


def levelled():
    return Levelled("Pendulum-v1")


def transformed():
    return TransformedEnv(levelled(), Compose(StepCounter(50), RewardSum()))


def paid(*layers):
    env = GymWrapper(Paid(gymnasium.make("CartPole-v1")))
    return TransformedEnv(env, *layers) if layers else env


def pool_of(make, num_workers=0):
    return PoolEnv(make, 2, num_workers=num_workers)


@pytest.mark.parametrize("make", cases([levelled, transformed]))
@pytest.mark.parametrize("num_workers", [0, 1])
def test_attributes_of_torchrls_layers(make, num_workers):
    pool = pool_of(make, num_workers)
    pool.set_attr("level", [9.0, 8.0])
    assert pool.get_attr("level") == [9.0, 8.0]
    assert pool.call("hello") == ["you: level 9", "you: level 8"]
    assert pool.call("hello", "me", env_index=1) == ["me: level 8"]
    assert pool.rollout(2)["next", "reward"].flatten().tolist() == [9, 9, 8, 8]
    pool.set_attr("given", 3.0)
    assert pool.get_attr("given") == pool.get_attr("_given") == [6.0, 6.0]
    pool.close()


@pytest.mark.parametrize("make", cases([levelled, transformed]))
def test_each_name_is_where_serial_env_finds_it(make):
    pool, reference = pool_of(make), SerialEnv(2, make)
    reference.start()
    for name in ("level", "given", "frame_skip", "spec", "render_mode"):
        assert pool.get_attr(name) == list(getattr(reference, name)), name
        assert pool.has_attr(name) == [True, True], name
    assert pool.get_attr("g") == [10.0, 10.0]  # which Gymnasium's wrappers hide from SerialEnv
    assert pool.has_attr("nowhere") == [False, False]
    with pytest.raises(EnvFailure, match="AttributeError"):
        pool.get_attr("nowhere")


def test_what_gymnasiums_layers_have():
    pool = pool_of(lambda: paid(StepCounter(5)))
    assert pool.get_attr("gravity") == [9.8, 9.8]
    pool.set_attr("gravity", 1.0)
    assert [env.gravity for env in pool.get_attr("unwrapped")] == [1.0, 1.0]
    pool.set_attr("bonus", 3.0)
    assert (pool.rollout(3)["next", "reward"] == 3).all()
    assert [type(one) for one in pool.get_attr("transform")] == [StepCounter, StepCounter]
    assert [type(one) for one in pool.get_attr("base_env")] == [GymWrapper, GymWrapper]


def test_new_attributes_are_set_where_gymnasium_sets_them():
    pool = pool_of(paid)
    pool.set_attr("remark", "new")
    assert pool.get_attr("remark") == ["new", "new"]
    assert all(vars(env)["remark"] == "new" for env in pool.get_attr("_env"))
    bare = pool_of(PendulumEnv)
    bare.set_attr("remark", "new")
    assert bare.get_attr("remark") == ["new", "new"]


def test_numbers_of_a_transform_are_reached_by_it():
    class Weighing(StepCounter):
        def __init__(self):
            super().__init__()
            self.register_buffer("weight", torch.ones(1))

    pool = pool_of(lambda: TransformedEnv(PendulumEnv(), Weighing()))
    assert [one.weight.item() for one in pool.get_attr("transform")] == [1, 1]


@pytest.mark.parametrize("encoding", cases([False, True]))
def test_steps_follow_what_was_set_in_the_midst_of_an_episode(encoding):
    """A ``GymEnv`` as it comes is stepped by a short way, which not all attributes allow."""

    def twice(self, value):
        return 2 * value

    pool = PoolEnv(
        lambda: GymEnv("CartPole-v1", categorical_action_encoding=encoding), 2, num_workers=0, seed=0
    )
    root = pool.rand_action(pool.reset())
    assert (pool.step(root.clone())["next", "reward"] == 1).all()
    pool.set_attr("read_reward", lambda reward: torch.tensor([2.0 * reward]))
    assert (pool.step(root.clone())["next", "reward"] == 2).all()
    assert (pool.rollout(3)["next", "reward"] == 2).all()


def normalized():
    return TransformedEnv(GymEnv("Pendulum-v1"), Compose(VecNormV2(["observation"]), RewardSum()))


def normalized_by_the_older():
    return TransformedEnv(GymEnv("Pendulum-v1"), VecNorm(["observation"]))


def flat(state, prefix=""):
    for key, value in state.items():
        if isinstance(value, dict):
            yield f"{prefix}{key}", None
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", np.asarray(value).tolist()


@pytest.mark.parametrize(
    "make", cases([levelled, PendulumEnv], also=[normalized, normalized_by_the_older, transformed])
)
@pytest.mark.parametrize("num_workers", [0, 1])
def test_state_dicts_are_those_of_serial_env(make, num_workers):
    pool, reference = pool_of(make, num_workers), SerialEnv(2, make)
    for env in (pool, reference):
        env.set_seed(0)
        root = env.reset()
        for number in range(5):
            action = torch.full((2, 1), 0.1 * number)
            _, root = env.step_and_maybe_reset(root.set("action", action))
    state = pool.state_dict()
    assert dict(flat(state)) == dict(flat(reference.state_dict()))
    fresh = pool_of(make, num_workers)
    fresh.load_state_dict(state)
    assert dict(flat(fresh.state_dict())) == dict(flat(state))
    fresh.load_state_dict(state["worker1"])  # for all of them, as SerialEnv takes it
    assert dict(flat(fresh.state_dict()["worker0"])) == dict(flat(state["worker1"]))
    pool.close(), fresh.close()


def test_state_dicts_that_do_not_fit_are_refused():
    pool = pool_of(normalized)
    state = pool.state_dict()
    with pytest.raises(KeyError, match="worker1"):
        pool.load_state_dict({"worker0": state["worker0"]})
    with pytest.raises(EnvFailure, match=r"Missing key|Error\(s\) in loading"):
        pool.load_state_dict({})


@pytest.mark.parametrize("task", cases(["CartPole-v1", "gymnasium:CartPole-v1"]))
def test_state_dicts_of_other_envs_are_empty(task):
    pool = PoolEnv(task, 2)
    assert dict(pool.state_dict()) == {}
    pool.load_state_dict(pool.state_dict())
