"""TorchRL's envs whose state travels in tensordicts: a step reads it there, as with SerialEnv."""

from functools import partial

import pytest
import torch
from cases import cases
from tensordict import TensorDict
from torchrl.envs import GymEnv, PendulumEnv, RewardSum, SerialEnv, StepCounter, TransformedEnv
from torchrl_envs import Stateless

from torchrl_pool import EnvFailure, PoolCollector, PoolEnv, fuse, single_envs


def counted():
    return TransformedEnv(GymEnv("CartPole-v1"), StepCounter())


def summed():
    return TransformedEnv(PendulumEnv(), RewardSum())


# What an env is made by, and one of its states with another value for env i.
ENVS = {
    "Pendulum": (PendulumEnv, "th", lambda i: 0.1 * (i + 1)),
    "Stateless": (Stateless, "height", lambda i: [0.1 * i]),
    "StepCounter": (counted, "step_count", lambda i: [7 + i]),
    "RewardSum": (summed, "episode_reward", lambda i: [7.0 + i]),
}


def envs(make, num_envs=3, **options):
    both = SerialEnv(num_envs, make), PoolEnv(make, num_envs, **{"num_workers": 0, **options})
    for env in both:
        env.set_seed(0)
    return both


def written(root, key, value):
    """The root with a state that its caller has chosen, and the same actions each time."""
    root = root.clone()
    kind = root[key]
    root[key] = torch.tensor([value(i) for i in range(len(root))], dtype=kind.dtype).reshape(kind.shape)
    return root


def acting(env, root, seed=0):
    env.action_spec.seed = seed
    torch.manual_seed(seed)
    return root.set("action", env.full_action_spec["action"].rand())


def assert_equal(one, other):
    """But for the flag that TorchRL leaves out where an env has none."""
    keys = set(one.keys(True, True))
    assert keys ^ set(other.keys(True, True)) <= {"truncated"}
    for key in keys - {"truncated"}:
        assert torch.equal(one[key], other[key]), key


@pytest.mark.parametrize(("make", "key", "value"), cases(ENVS.values()), ids=ENVS)
@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_step_reads_what_the_caller_wrote(make, key, value, num_workers):
    reference, pool = envs(make, num_workers=num_workers)
    assert set(pool.full_state_spec.keys(True, True)) == set(reference.full_state_spec.keys(True, True))
    assert pool.full_state_spec[key] == reference.full_state_spec[key]
    assert list(pool.full_action_spec.keys(True, True)) == ["action"]
    results = []
    for env in (reference, pool):
        root = acting(env, written(env.reset(), key, value))
        first = env.step(root)
        second, root = env.step_and_maybe_reset(acting(env, written(env.step_mdp(first), key, value), 1))
        results.append((first["next"], second["next"], root))
    for one, other in zip(*results, strict=True):
        assert_equal(other, one)
    pool.close()


def test_tensors_written_in_place():
    reference, pool = envs(PendulumEnv)
    after = []
    for env in (reference, pool):
        root = env.reset()
        root["th"].fill_(1.0)
        root["params", "g"].zero_()
        after.append(env.step(root.set("action", torch.zeros(3, 1)))["next"])
    assert_equal(after[1], after[0])
    assert after[1]["params", "g"].tolist() == [0, 0, 0]


def test_one_env_of_a_pool():
    reference, pool = envs(PendulumEnv, 2)
    one = single_envs(pool)[1]()
    root, theirs = one.reset(), reference.reset()
    root["th"], theirs["th"] = torch.tensor(0.5), torch.full((2,), 0.5)
    root["thdot"], theirs["thdot"] = torch.tensor(0.0), torch.zeros(2)
    after = one.step(root.set("action", torch.zeros(1)))
    expected = reference.step(theirs.set("action", torch.zeros(2, 1)))
    assert after["next", "th"] == expected["next", "th"][1]


@pytest.mark.parametrize("is_fused", cases([False, True]))
def test_under_transforms_of_the_batch(is_fused):
    def around(env):
        return TransformedEnv(env, StepCounter(4))

    reference, pool = map(around, envs(PendulumEnv, 2))
    if is_fused:
        pool = fuse(pool)
    results = []
    for env in (reference, pool):
        root = acting(env, written(env.reset(), "th", lambda i: 0.3 * i))
        data, root = env.step_and_maybe_reset(root)
        results.append((data["next"], root))
    for one, other in zip(*results, strict=True):
        assert_equal(other, one)


@pytest.mark.parametrize("set_state", cases([True, False]))
def test_a_reset_begins_from_the_state_that_it_is_given(set_state):
    reference, pool = envs(PendulumEnv)
    begun = []
    for env in (reference, pool):
        root = written(env.reset(), "th", lambda i: 0.1 * i)
        root["params", "g"] = torch.tensor([1.0, 2.0, 3.0])
        given = root.select("th", "thdot", "params")
        root = env.reset(given, set_state=set_state).clone()
        mask = torch.tensor([[False], [True], [True]])
        partly = env.reset(written(root, "th", lambda i: 0.5).set("_reset", mask), set_state=set_state)
        begun.append((root, partly, env.step(partly.clone().set("action", torch.zeros(3, 1)))["next"]))
    for one, other in zip(*begun, strict=True):
        assert_equal(other, one)


def test_an_episode_that_ends_begins_as_the_env_says():
    def make():
        return TransformedEnv(PendulumEnv(), StepCounter(2))

    reference, pool = envs(make)
    roots = []
    for env in (reference, pool):
        root = env.reset()
        root["params", "g"] = torch.full((3,), 3.0)
        for _ in range(3):
            _, root = env.step_and_maybe_reset(root.set("action", torch.zeros(3, 1)))
        roots.append(root)
    assert_equal(*(root.exclude("action") for root in reversed(roots)))


def test_what_a_tensordict_lacks_is_what_the_env_had():
    _, pool = envs(PendulumEnv, 2)
    root = pool.reset()
    bare = TensorDict({"action": torch.zeros(2, 1)}, [2])
    expected = pool.step(root.clone().update(bare))["next", "th"]
    pool.reset(root, set_state=True)
    assert torch.equal(pool.step(bare)["next", "th"], expected)


def test_a_restored_env_goes_on_from_what_was_saved():
    _, pool = envs(Stateless, 2)
    root = pool.reset()
    states = pool.get_state()
    action = torch.zeros(2, 1)
    expected = pool.step(root.clone().set("action", action))["next", "height"]
    elsewhere = written(pool.reset(), "height", lambda i: [9.0]).set("action", action)
    pool.set_state(states)
    after = pool.step(elsewhere)
    assert torch.equal(after["next", "height"], expected)
    again = pool.step(elsewhere)  # once: from then on the tensordict says it
    assert (again["next", "height"] > 9).all()


@pytest.mark.parametrize(
    ("value", "error", "message"),
    cases(
        [
            (torch.zeros(3), ValueError, r"'th': expected shape \[2\], got \[3\]"),
            (
                torch.zeros(2, dtype=torch.complex64),
                TypeError,
                "'th': expected a tensor of dtype torch.float32",
            ),
        ]
    ),
)
def test_states_that_do_not_fit_are_refused(value, error, message):
    _, pool = envs(PendulumEnv, 2)
    root = dict(pool.reset())
    given = TensorDict({**root, "action": torch.zeros(2, 1)}, [2])
    given._tensordict["th"] = value
    with pytest.raises(error, match=message):
        pool._step(given)


def test_states_are_not_set_where_the_env_does_not():
    _, pool = envs(counted, 2)
    with pytest.raises(NotImplementedError, match="does not support deterministic resets"):
        pool.reset(pool.reset(), set_state=True)


def test_a_failure_is_the_envs():
    class Picky(PendulumEnv):
        def _step(self, tensordict):
            if tensordict["th"] > 1:
                raise RuntimeError("too far")
            return super()._step(tensordict)

    _, pool = envs(partial(Picky), 2)
    root = written(pool.reset(), "th", lambda i: float(2 * i)).set("action", torch.zeros(2, 1))
    with pytest.raises(EnvFailure, match=r"env 1 .* failed in step 1: RuntimeError: too far"):
        pool.step(root)


def test_a_collector_carries_them():
    def turning(tensordict):
        # It acts, and turns the pendulum by itself.
        angle = tensordict["th"]
        return tensordict.update({"action": torch.zeros(len(angle), 1), "th": 0.5 * angle})

    batches = []
    for pool in (envs(PendulumEnv, 2)[1] for _ in range(2)):
        if not batches:
            collector = PoolCollector(pool, turning, frames_per_batch=12)
            batches.append(next(iter(collector)).clone())
            collector.shutdown()
        else:
            batches.append(pool.rollout(6, turning, break_when_any_done=False))
    for key in (("next", "th"), ("next", "thdot"), ("next", "params", "g")):
        assert torch.equal(batches[0][key], batches[1][key]), key
    turned = batches[0]["next", "th"] - 0.5 * batches[0]["next", "th"].roll(1, 1)
    assert (turned[:, 1:].abs() < 0.5).all()
