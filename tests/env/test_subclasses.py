"""Subclasses of pools that have a step or a reset of their own, beside the same subclasses of SerialEnv."""

import gymnasium
import pytest
import torch
from cases import cases
from torchrl.collectors import Collector
from torchrl.envs import GymEnv, RewardSum, SerialEnv, TransformedEnv

from torchrl_pool import MujocoPool, PoolCollector, PoolEnv, fuse, single_envs


def changed(base):
    """Earns two less, and begins with sevens."""

    class Changed(base):
        def _step(self, tensordict):
            result = super()._step(tensordict)
            return result.set("reward", result["reward"] - 2)

        def _reset(self, tensordict=None, **kwargs):
            result = super()._reset(tensordict, **kwargs)
            return result.set("observation", torch.full_like(result["observation"], 7))

    return Changed


def changed_outside(base):
    """The same by the public methods."""

    class Changed(base):
        def step(self, tensordict):
            result = super().step(tensordict)
            result["next"].set("reward", result["next", "reward"] - 2)
            return result

        def reset(self, tensordict=None, **kwargs):
            result = super().reset(tensordict, **kwargs)
            return result.set("observation", torch.full_like(result["observation"], 7))

    return Changed


def facts(env, collector):
    """Rewards and first observations by each way in which envs are stepped."""

    def rewards(data):
        return data["next", "reward"].unique().tolist()

    batch = next(iter(collector(env, frames_per_batch=160, total_frames=160)))
    return {
        "rollout": rewards(env.rollout(4, break_when_any_done=False)),
        "rollout until done": rewards(env.rollout(3)),
        "reset": env.reset()["observation"].unique().tolist(),
        "step": rewards(env.step(env.rand_action(env.reset()))),
        "step_and_maybe_reset": rewards(env.step_and_maybe_reset(env.rand_action(env.reset()))[0]),
        "rand_step": rewards(env.rand_step(env.reset())),
        "collector": rewards(batch),
        "automatic resets": batch["observation"][:, 1:][batch["next", "done"][:, :-1, 0]].unique().tolist(),
    }


def make():
    return GymEnv("CartPole-v1")


POOLS = {
    "native": lambda change: change(PoolEnv)("CartPole-v1", 2, seed=0),
    "in workers": lambda change: change(PoolEnv)("gymnasium:CartPole-v1", 2, num_workers=1, seed=0),
}


@pytest.mark.parametrize("change", [changed, changed_outside])
@pytest.mark.parametrize("collector", [PoolCollector, Collector])
@pytest.mark.parametrize("pool", cases(POOLS))
def test_own_steps_and_resets_are_asked_as_in_serial_env(pool, collector, change):
    with POOLS[pool](change) as env:
        ours = facts(env, collector)
    assert ours == facts(change(SerialEnv)(2, make), Collector)


def test_some_envs_and_single_ones():
    env = changed(PoolEnv)("CartPole-v1", 3)
    root = env.reset()
    some = env.rand_step(root[:2].set("env_index", torch.arange(2)))
    assert some["next", "reward"].tolist() == [[-1.0], [-1.0]]
    single = single_envs(env)[1]()
    assert single.reset()["observation"].tolist() == [7.0] * 4
    assert single.rollout(3)["next", "reward"].unique().tolist() == [-1.0]


@pytest.mark.parametrize("fuses", cases([False, True]))
def test_transforms_around_it_see_what_it_gives(fuses):
    env = TransformedEnv(changed(PoolEnv)("CartPole-v1", 2), RewardSum())
    env = fuse(env) if fuses else env
    theirs = TransformedEnv(changed(SerialEnv)(2, make), RewardSum())
    sums = env.rollout(4, break_when_any_done=False)["next", "episode_reward"]
    assert torch.equal(sums, theirs.rollout(4, break_when_any_done=False)["next", "episode_reward"])


def test_a_mixin():
    class Mixin:
        def _step(self, tensordict):
            result = super()._step(tensordict)
            return result.set("reward", result["reward"] * 3)

    class Mixed(Mixin, PoolEnv):
        pass

    assert Mixed("CartPole-v1", 2).rollout(3)["next", "reward"].unique().tolist() == [3.0]


def test_a_subclass_of_mujoco_pool():
    env = changed(MujocoPool)(
        "inverted_pendulum.xml", 2, observation=lambda state: {"observation": state["qpos"]}
    )
    data = env.rollout(3, break_when_any_done=False)
    assert data["next", "reward"].unique().tolist() == [-2.0]
    assert data["observation"][:, 0].unique().tolist() == [7.0]


def test_asynchronous_calls_are_refused_where_they_would_pass_it_over():
    env = changed(PoolEnv)("CartPole-v1", 2)
    root = env.rand_action(env.reset())
    for send in (env.async_step_send, env.async_step_and_maybe_reset_send, env.async_reset_send):
        with pytest.raises(
            TypeError, match="has a step or a reset of its own, which asynchronous calls do not"
        ):
            send(root)

    class Async(changed(PoolEnv)):
        def async_step_recv(self, *args, **kwargs):
            return super().async_step_recv(*args, **kwargs)

    env = Async("CartPole-v1", 2)
    env.async_step_send(env.rand_action(env.reset()))
    assert env.async_step_recv(2)["env_index"].tolist() == [0, 1]


def test_the_action_of_a_discrete_space_is_the_int_that_gym_env_gives():
    class Asked(gymnasium.Wrapper):
        def step(self, action):
            self.kind = type(action)
            return self.env.step(action)

    for num_workers in (0, 1):
        for categorical in (False, True):
            env = PoolEnv(
                lambda: Asked(gymnasium.make("CartPole-v1")),
                2,
                num_workers=num_workers,
                categorical_action_encoding=categorical,
            )
            env.rand_step(env.reset())
            assert env.get_attr("kind") == [int, int]
