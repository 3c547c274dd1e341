"""Tensors that the pool returned belong to the consumer: the pool neither writes nor reads them again."""

from functools import partial

import pytest
import torch
from cases import cases
from tensordict import TensorDict
from torchrl.envs import EnvBase, RewardSum, TransformedEnv

from torchrl_pool import PoolEnv

N = 6
INFO_KEYS = ("step_count", "episode_reward", "is_init")

cartpole = partial(PoolEnv, "CartPole-v1", N, num_threads=2, info_keys=INFO_KEYS)
pendulum = partial(PoolEnv, "Pendulum-v1", N, num_threads=2, max_episode_steps=17)


def one_visit(env, td):
    return env.step_and_maybe_reset(td)


def plain_road(env, td):
    return EnvBase.step_and_maybe_reset(env, td)


ROADS = pytest.mark.parametrize("road", cases([one_visit, plain_road]))
MAKERS = pytest.mark.parametrize("make", cases([cartpole, pendulum]), ids=["cartpole", "pendulum"])


def storages(td):
    return {key: tensor.untyped_storage().data_ptr() for key, tensor in td.items(True, True)}


# ---- what is shared --------------------------------------------------------------------------------------


@MAKERS
def test_next_and_root_share_memory_only_where_no_episode_ends(make):
    env = make(seed=0)
    root = env.reset()
    kinds = set()
    previous = storages(root)
    for _ in range(200):
        td, root = env.step_and_maybe_reset(env.rand_action(root))
        after, following = storages(td["next"]), storages(root.exclude("action"))
        ends = bool(td["next", "done"].any())
        kinds.add(ends)
        assert set(following) == set(after) - {"reward"}
        for key, storage in following.items():
            assert (storage == after[key]) is not ends
        if ends:
            assert not set(after.values()) & set(following.values())
        # No entry shares with another or with the step before.
        assert len(set(after.values())) == len(after)
        assert len(set(following.values())) == len(following)
        assert not set(after.values()) & set(previous.values())
        previous = following
    assert kinds == {False, True}


# ---- terminal observations -------------------------------------------------------------------------------


@pytest.mark.parametrize("wrap", [lambda env: env, lambda env: TransformedEnv(env, RewardSum())])
@pytest.mark.parametrize("limit", [4, 500])
@ROADS
def test_terminal_and_first_observations(road, limit, wrap):
    """Against a twin that goes on after its episodes' ends, and one that only resets."""
    kwargs = {"max_episode_steps": limit}
    env = wrap(PoolEnv("CartPole-v1", N, **kwargs))
    never_reset, only_reset = (PoolEnv("CartPole-v1", N, **kwargs) for _ in range(2))
    root, twin_root = env.reset(seed=1), never_reset.reset(seed=1)
    first = only_reset.reset(seed=1)["observation"]
    assert torch.equal(root["observation"], first)
    second = only_reset.reset()["observation"]
    running = torch.ones(N, dtype=torch.bool)
    while running.any():
        action = env.rand_action()["action"]
        td, root = road(env, root.set("action", action))
        twin = never_reset.step(twin_root.set("action", action))
        done = td["next", "done"].squeeze(-1)
        assert torch.equal(td["next", "observation"][running], twin["next", "observation"][running])
        assert torch.equal(done[running], twin["next", "done"].squeeze(-1)[running])
        begins = running & done
        assert torch.equal(root["observation"][begins], second[begins])
        assert not root["done"].any()
        if limit == 500:
            assert (td["next", "observation"][begins, 2].abs() > 0.2).all()  # it did fall
        twin_root = never_reset.step_mdp(twin)
        running &= ~done


# ---- consumers that write --------------------------------------------------------------------------------


def scribble(td):
    for tensor in td.values(True, True):
        tensor.fill_(1) if tensor.dtype is torch.bool else tensor.fill_(77)


def test_writing_into_results_does_not_show_in_rows_that_a_reset_leaves_out():
    """Transforms pass the mask alone, and some of them (VecNorm) look at all rows of what comes back."""
    env = cartpole(seed=0)
    scribble(env.reset())
    mask = torch.arange(N) < 2
    rows = env._reset(TensorDict({"_reset": mask}, [N]))["observation"]
    assert (rows[mask].abs() <= 0.05).all()
    assert (rows[~mask] != 77).all()


def test_writing_into_specs_changes_nothing():
    env, twin = cartpole(seed=0), cartpole(seed=0)
    zeros = env.full_observation_spec.zero()
    scribble(zeros)
    root = env.reset()
    assert (root == twin.reset()).all()


def test_actions_that_require_gradients():
    env = pendulum(seed=0)
    action = torch.zeros(N, 1, requires_grad=True)
    td, root = env.step_and_maybe_reset(env.reset().set("action", action))
    assert td["action"] is action
    assert not any(tensor.requires_grad for tensor in td["next"].values())
    assert not any(tensor.requires_grad for key, tensor in root.items() if key != "action")


def test_inference_mode_leaves_nothing_behind():
    """Evaluation in inference mode must not make training fail: nothing may be saved for backward there."""
    env = cartpole(seed=0)
    with torch.inference_mode():
        root = env.reset()
        td, _ = env.step_and_maybe_reset(env.rand_action(root))
        assert not td["next", "done"].any()
    root = env.reset()
    for _ in range(50):
        td, root = env.step_and_maybe_reset(env.rand_action(root))
        assert not any(tensor.is_inference() for tensor in [*td.values(True, True), *root.values()])
