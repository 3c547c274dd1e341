"""TorchRL's cases of VecNorm and VecNormV2."""

import pickle
from copy import deepcopy

import pytest
import torch
from torchrl.envs import Compose, RenameTransform, VecNorm, VecNormV2
from ways import as_it_is, counted, transformed

pytestmark = pytest.mark.filterwarnings("ignore:Support of VecNormV2 for containers", "ignore:VecNorm")


def steps_of(env, count):
    """The steps of a loop that never stops."""
    root = env.reset()
    for _ in range(count):
        step, root = env.step_and_maybe_reset(env.rand_action(root))
        yield step


def stacked(env, count):
    return torch.stack(list(steps_of(env, count)), 1)


@pytest.mark.parametrize("num_envs", [1, 4])
def test_v2_without_decay_knows_all_rewards(way, num_envs):
    norm = VecNormV2(["reward", "observation"], ["reward_norm", "obs_norm"], decay=1, reduce_batch_dims=True)
    env = transformed(way, "Draws-v0", norm, num_envs=num_envs)
    rewards = []
    for i, step in enumerate(steps_of(env, 20)):
        rewards.append(step["next", "reward"])
        if i >= 2:
            seen = torch.stack(rewards)
            torch.testing.assert_close(norm.loc["reward"], seen.mean((0, 1)))
            torch.testing.assert_close(norm.scale["reward"], seen.std((0, 1), unbiased=False))


@pytest.mark.parametrize("reduced", [True, False])
def test_v2_with_its_state_in_the_tensordict_or_not(way, reduced):
    def rollout(stateful):
        norm = VecNormV2(["observation"], ["obs_norm"], stateful=stateful, reduce_batch_dims=reduced)
        env = transformed(way, "Pendulum-v1", norm, num_envs=1 if not reduced else 3)
        torch.manual_seed(0)
        return env.rollout(10), norm

    if reduced:
        with pytest.raises(RuntimeError, match="reduce_batch_dims=True and stateful=False"):
            rollout(False)
        return
    (data, norm), (other, _) = rollout(True), rollout(False)
    torch.testing.assert_close(data["next", "obs_norm"], other["next", "obs_norm"])
    last = other["next", "_vecnorm_loc", "observation"][:, -1]
    torch.testing.assert_close(norm._loc["observation"].expand_as(last), last)


@pytest.mark.parametrize("kind", [VecNorm, VecNormV2])
def test_two_norms_in_a_row(way, kind):
    env = transformed(way, "Count-v0", kind(["observation"]), kind(["reward"]), num_envs=2)
    data = env.rollout(12, last_counted, break_when_any_done=False)
    assert data["next", "reward"].isfinite().all()
    assert data["next", "observation"].isfinite().all()


def last_counted(td):
    return td.update(counted(td.select("observation")).select("action"))


def test_v2_has_statistics_once_it_has_an_env(way):
    norm = VecNormV2(["observation"], ["obs_norm"])
    assert norm._loc is None
    transformed(way, "Count-v0", norm)
    assert norm._loc is not None


@pytest.mark.parametrize("kind", [VecNorm, VecNormV2])
@pytest.mark.parametrize("num_envs", [1, 5])
def test_normed_observations_have_mean_0_and_deviation_1(way, kind, num_envs):
    norm = kind(
        ["observation", "reward"], decay=0.98, **({"reduce_batch_dims": True} if kind is VecNormV2 else {})
    )
    env = transformed(way, "Draws-v0", norm, num_envs=num_envs, end=60)
    seen = stacked(env, 300)["next", "observation"][:, 150:].flatten(0, 1)
    assert (seen.mean(0).abs() < 0.25).all()
    assert ((seen.std(0) - 1).abs() < 0.25).all()


def test_vecnorm_counts_every_row_of_every_call(way):
    norm = VecNorm(["observation", "reward"], decay=1.0)
    env = transformed(way, "Count-v0", norm, num_envs=3, env_options=[{"end": e} for e in (3, 4, 5)])
    root = env.reset()
    before = norm._td["observation_count"].clone()
    partial_resets = 0
    for _ in range(12):
        root = last_counted_one_hot(root)
        step, root = env.step_and_maybe_reset(root)
        partial_resets += bool(step["next", "done"].any())
    assert partial_resets > 0
    assert norm._td["observation_count"] - before == 3 * (12 + partial_resets)
    assert norm._td["reward_count"] == 3 * 12 + norm_count_of_specs()


def last_counted_one_hot(td):
    action = torch.zeros(*td.batch_size, 2, dtype=torch.int64)
    action[..., 1] = 1
    return td.set("action", action)


def norm_count_of_specs():
    """What a norm has counted before the first step of a fresh env."""
    norm = VecNorm(["observation", "reward"], decay=1.0)
    env = transformed(as_it_is, "Count-v0", norm, num_envs=3)
    env.reset()
    return norm._td.get("reward_count", torch.zeros(1)).item()


@pytest.mark.parametrize("kind", [VecNorm, VecNormV2])
def test_denorm_gives_back_what_the_env_gave(way, kind):
    norm = kind(["observation"])
    env = transformed(way, "Pendulum-v1", norm, num_envs=1)
    twin = transformed(as_it_is, "Pendulum-v1", kind(["observation"]), num_envs=1).base_env
    root, plain = env.reset(), twin.reset()
    for _ in range(5):
        env.rand_action(root)
        plain["action"] = root["action"]
        root, plain = env.step(root)["next"], twin.step(plain)["next"]
    torch.testing.assert_close(norm.denorm(root)["observation"], plain["observation"], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", [VecNorm, VecNormV2])
def test_a_norm_that_has_an_env_is_pickled(way, kind):
    norm = kind(["observation"])
    transformed(way, "Count-v0", norm)
    copy = pickle.loads(pickle.dumps(norm))
    assert copy.__dict__.keys() == norm.__dict__.keys()
    for one, other in zip(norm.state_dict().values(), copy.state_dict().values(), strict=True):
        assert str(one) == str(other)


@pytest.mark.parametrize("kind", [VecNorm, VecNormV2])
def test_statistics_go_to_another_env_with_their_state_dict(way, kind):
    """What the second env writes next is what the first one would have written."""

    def make():
        return transformed(
            way,
            "Draws-v0",
            RenameTransform(["precise"], [("b", "c")]),
            kind(["observation", ("b", "c")], ["avg", ("b", "c_avg")]),
            num_envs=2,
        )

    one, other = make(), make()
    one.rollout(20)
    other.load_state_dict(deepcopy(one.state_dict()))  # VecNorm shares what it loads
    a, b = one.reset(seed=3), other.reset(seed=3)
    assert torch.equal(a["avg"], b["avg"])
    assert torch.equal(a["b", "c_avg"], b["b", "c_avg"])


@pytest.mark.parametrize("kind", [VecNorm, VecNormV2])
def test_to_observation_norm_is_what_the_norm_was(way, kind):
    norm = kind(["observation", "precise"], ["avg", "precise_avg"])
    env = transformed(way, "Draws-v0", norm, num_envs=3)
    data = env.rollout(10, break_when_any_done=False)["next"][:, -1]
    fixed = norm.to_observation_norm()
    fixed = fixed if isinstance(fixed, Compose) else Compose(fixed)
    again = fixed._step(data, data.select("observation", "precise").clone())
    torch.testing.assert_close(again["avg"], data["avg"], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(again["precise_avg"], data["precise_avg"], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", [VecNorm, VecNormV2])
def test_frozen_statistics_stay(way, kind):
    norm = kind(["observation"], ["avg"])
    if kind is VecNorm:
        with pytest.raises(RuntimeError, match="Make sure the VecNorm has been initialized"):
            norm.frozen_copy()
    env = transformed(way, "Draws-v0", norm, num_envs=3)
    env.rollout(5)
    frozen = transformed(way, "Draws-v0", norm.frozen_copy(), num_envs=3, seed=1)
    before = {
        key: value.clone() for key, value in frozen.transform.state_dict().items() if torch.is_tensor(value)
    }
    a = frozen.reset(seed=8)["avg"]
    frozen.rollout(20)
    assert torch.equal(frozen.reset(seed=8)["avg"], a)
    after = frozen.transform.state_dict()
    assert all(torch.equal(after[key], value) for key, value in before.items())
    env.rollout(5)
    b = env.reset(seed=8)["avg"]
    assert not torch.equal(a, b)
    env.transform.freeze()
    assert torch.equal(env.reset(seed=8)["avg"], env.reset(seed=8)["avg"])
    env.transform.unfreeze()
    assert not torch.equal(env.reset(seed=8)["avg"], env.reset(seed=8)["avg"])
