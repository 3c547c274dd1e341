"""What a step makes of the tensordict that it is given: entries, names, locks, hooks."""

from functools import partial

import pytest
import torch
from cases import cases
from comparing import assert_same
from small_envs import MAKERS, N, cartpole, fall_right
from tensordict import LazyStackedTensorDict
from torchrl.envs import EnvBase, GymEnv, SerialEnv, StepCounter, TransformedEnv

from torchrl_pool import PoolEnv, fuse, single_envs


def test_policy_entries_are_carried_like_by_step_mdp():
    one_visit, plain = cartpole(seed=0), cartpole(seed=0)

    def policy(td):
        fall_right(td)
        td["count"] = td.get("count", torch.zeros(N)) + 1
        td["nested", "entry"] = td["count"] * 2
        td.set_non_tensor("name", "policy")
        td["next", "hidden"] = td["count"] * 3
        td["reward"] = torch.ones(N, 1)  # neither this nor the next goes on
        td["_reset"] = torch.zeros(N, 1, dtype=torch.bool)
        return td

    a, b = one_visit.reset(), plain.reset()
    for i in range(5):
        a, a_root = one_visit.step_and_maybe_reset(policy(a))
        b, b_root = EnvBase.step_and_maybe_reset(plain, policy(b))
        for td in (a, b):
            assert (td["next", "hidden"] == 3 * (i + 1)).all()
            assert (td["count"] == i + 1).all()
        for root in (a_root, b_root):
            assert root["name"] == "policy"
            assert "next" not in root
            assert "reward" not in root
            assert "_reset" not in root
        assert_same(a.exclude("name"), b.exclude("name"))
        assert_same(a_root.exclude("name"), b_root.exclude("name"))
        a, b = a_root, b_root
    # The nested container is a copy, so that a policy that adds to it does not change what was returned.
    before = set(a["nested"].keys())
    _, root = one_visit.step_and_maybe_reset(policy(a))
    root["nested", "later"] = torch.zeros(N)
    assert set(a["nested"].keys()) == before


def test_post_step_hooks_run():
    """As TorchRL's transforms install them: they may change or replace what step_and_maybe_reset returns."""
    for road in (cartpole.func.step_and_maybe_reset, EnvBase.step_and_maybe_reset):
        env = cartpole(seed=0)
        env._post_step_mdp_hooks = lambda td, root: (td.set("seen", torch.ones(N)), root.exclude("action"))
        td, root = road(env, fall_right(env.reset()))
        assert td["seen"].all()
        assert "action" not in root


def test_lazy_stack_as_input():
    dense, lazy = cartpole(seed=0), cartpole(seed=0)
    a, b = dense.reset(), lazy.reset()
    for _ in range(30):
        fall_right(a)
        stacked = LazyStackedTensorDict.lazy_stack(list(b.set("action", a["action"]).unbind(0)), 0)
        a, a_root = dense.step_and_maybe_reset(a)
        b, b_root = lazy.step_and_maybe_reset(stacked)
        assert_same(b["next"], a["next"])
        assert_same(b_root.exclude("action"), a_root.exclude("action"))
        a, b = a_root, b_root.to_tensordict()


def test_names_of_dimensions_are_kept():
    env = PoolEnv("CartPole-v1", 3)
    root = env.rand_action(env.reset())
    root.names = ["envs"]
    data, root = env.step_and_maybe_reset(root)
    assert data.names == data["next"].names == root.names == ["envs"]


@pytest.mark.parametrize("fused", cases([False, True]))
def test_the_device_of_a_root_is_kept_where_the_env_has_none(fused):
    env = PoolEnv("CartPole-v1", 3)
    env = fuse(TransformedEnv(env, StepCounter())) if fused else env
    root = env.rand_action(env.reset()).to("cpu")
    data, root = env.step_and_maybe_reset(root)
    assert data.device == data["next"].device == root.device == torch.device("cpu")
    assert env.rollout(2, auto_reset=False, tensordict=root)["next"].device == torch.device("cpu")


@MAKERS
def test_wrong_batch_size_is_refused(make):
    env = make()
    root = env.rand_action(env.reset())
    for step in (env.step, env.step_and_maybe_reset):
        with pytest.raises(RuntimeError, match=r"Expected a tensordict with shape==env\.batch_size"):
            step(root[: N - 1].clone())
    assert env.step(root)["next"].batch_size == (N,)


def test_a_locked_tensordict_is_refused_before_anything_moves():
    env, twin = PoolEnv("CartPole-v1", 3, seed=0), PoolEnv("CartPole-v1", 3, seed=0)
    root = env.rand_action(env.reset())
    twin.reset()
    with pytest.raises(RuntimeError, match="lock"):
        env.step_and_maybe_reset(root.clone().lock_())
    assert (env.step(root.clone())["next"] == twin.step(root.clone())["next"]).all()


def test_the_next_root_has_its_entries_in_the_order_of_torchrls():
    roots = []
    for env in (PoolEnv("CartPole-v1", 2), SerialEnv(2, partial(GymEnv, "CartPole-v1"))):
        root = env.reset().set("mine", torch.zeros(2))
        _, root = env.step_and_maybe_reset(env.rand_action(root))
        roots.append(list(root.keys()))
    assert roots[0] == roots[1]


@pytest.mark.parametrize(
    ("entries", "message"),
    cases(
        [
            ({}, r"got \['observation', 'terminated', 'truncated', 'done'\]"),
            ({"action": torch.zeros(2)}, r"expected shape \[1, 1\], got \[1, 2\]"),
        ]
    ),
    ids=["missing", "shape"],
)
def test_a_single_env_refuses_what_it_was_given_itself(entries, message):
    env = single_envs(PoolEnv("Pendulum-v1", 3))[1]()
    with pytest.raises((KeyError, ValueError), match=message):
        env.step(env.reset().update(entries))
