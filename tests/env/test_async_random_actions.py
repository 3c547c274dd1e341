"""Random actions and steps of the envs that were received."""

import pytest
import torch
from building import build_plugin, load_fault_plugin
from cases import cases
from tensordict import TensorDict

from torchrl_pool import EnvFailure, load_plugin

load_fault_plugin()
load_plugin(build_plugin("spaces"))


def bounded(make_pool, num_envs=6, **kwargs):
    """Envs whose bounds of the action differ a hundredfold from one to the next."""
    gains = [100.0**-i for i in range(num_envs)]
    return make_pool("Fault-v0", num_envs, env_options=[{"gain": g} for g in gains], **kwargs), gains


@pytest.mark.parametrize("kind", cases(["reset", "step_and_maybe_reset"]))
def test_random_actions_for_the_envs_that_were_received(kind, make_pool):
    """Within the bounds of each row's own env, in batches of any size and for a row alone."""
    pool, gains = bounded(make_pool)
    pool.async_reset_send()
    if kind == "step_and_maybe_reset":
        pool.async_step_and_maybe_reset_send(pool.rand_action(pool.async_reset_recv(6)))
    for count in (1, 2, 3):
        roots = getattr(pool, f"async_{kind}_recv")(count, max_get=count)
        root = roots if kind == "reset" else roots[1]
        root.pop("action", None)
        assert pool.rand_action(root) is root
        assert root["action"].shape == (count, 2)
        for row in root.unbind(0):
            gain = gains[int(row["env_index"])]
            assert (row["action"].abs() <= gain).all()
            assert (row["action"].abs() > gain / 1000).any()
            alone = pool.rand_action(row.exclude("action").clone())["action"]
            assert alone.shape == (2,)
            assert (alone.abs() <= gain).all()
        pool.async_step_send(root)
    assert pool.async_step_recv(6)["env_index"].tolist() == list(range(6))


def test_random_actions_follow_env_index_in_any_order(make_pool):
    pool, gains = bounded(make_pool)
    root = pool.reset()
    order = [3, 0, 5, 2, 1, 4]
    actions = pool.rand_action(root[order].set("env_index", torch.tensor(order)))["action"]
    assert (actions.abs() <= torch.tensor(gains)[order, None]).all()


@pytest.mark.parametrize(
    "task", cases(default=["CartPole-v1", "Pendulum-v1"], also=["Mixed-v0", "Agents-v0"])
)
@pytest.mark.parametrize("categorical", [False, True])
def test_random_actions_of_any_spec(task, categorical, make_pool):
    pool = make_pool(task, categorical_action_encoding=categorical)
    pool.async_reset_send()
    root = pool.async_reset_recv(4, max_get=4)
    pool.async_step_and_maybe_reset_send(pool.rand_action(root))
    _, root = pool.async_step_and_maybe_reset_recv(4)
    indices = root["env_index"].tolist()
    for key in pool.action_keys:
        assert pool.full_action_spec[key][indices].is_in(pool.rand_action(root)[key])


def test_random_actions_are_those_of_the_same_seed(make_pool):
    """All envs, by index or not, get the actions that a synchronous pool gives."""
    pool = make_pool()
    root = pool.reset()
    torch.manual_seed(1)
    expected = pool.rand_action(root.clone())["action"]
    torch.manual_seed(1)
    assert torch.equal(pool.rand_action(root.set("env_index", torch.arange(6)))["action"], expected)


def test_random_actions_need_to_know_the_envs(make_pool):
    pool = make_pool()
    root = pool.reset()
    for call in (pool.rand_action, pool.rand_step):
        with pytest.raises(KeyError, match=r"expected env_index, or an entry 'env_index'.*got \[2\]"):
            call(root[:2])
        with pytest.raises(
            ValueError, match=r"expected batch size \[6\], one row per env of env_index, got \[2, 3\]"
        ):
            call(TensorDict({"env_index": torch.arange(6).reshape(2, 3)}, [2, 3]))


def test_a_random_step_of_the_envs_that_were_received(make_pool):
    """Of them alone, while others are in flight, and of a row without a batch dimension."""
    pool, twin = make_pool(seed=0), make_pool(seed=0)
    pool.async_reset_send()
    first = pool.async_reset_recv(6)
    pool.async_step_send(pool.rand_action(first[[0, 5]]))  # one result of these is not to be taken for theirs
    rows = first[[4, 1]]
    data = pool.rand_step(rows)
    assert data is rows
    assert data["env_index"].tolist() == [4, 1]
    alone = pool.rand_step(first[2].clone())
    assert alone["next"].batch_size == torch.Size([])
    actions = twin.rand_action()["action"]
    actions[[4, 1]], actions[2] = data["action"], alone["action"]
    expected = twin.step(twin.reset().set("action", actions))["next"]
    assert (data["next"] == expected[[4, 1]]).all()
    assert (alone["next"] == expected[2]).all()
    assert pool.async_step_recv(2)["env_index"].tolist() == [0, 5]
    assert pool.get_state(3) == make_reset_state(make_pool, 3)


def make_reset_state(make_pool, env):
    pool = make_pool(seed=0)
    pool.reset()
    return pool.get_state(env)


def test_a_random_step_raises_all_failures(make_pool):
    options = [{"fault": "throw" if i in (1, 3) else "none", "at": 1} for i in range(5)]
    pool = make_pool("Fault-v0", 5, env_options=options)
    pool.async_reset_send()
    root = pool.async_reset_recv(5)
    with pytest.raises(
        EnvFailure, match=r"env 1 .*the simulator broke \(and 1 more env failed too\)"
    ) as failure:
        pool.rand_step(root[[3, 2, 1]])
    assert failure.value.env_index == [1, 3]
    assert failure.value.steps == [1, 1]
    assert len(failure.value.messages) == 2
    with pytest.raises(RuntimeError, match="env 3 has failed"):
        pool.rand_step(root[[2, 3]])  # and env 2 did not move
    pool.async_reset_send(env_index=[1, 3])
    pool.async_reset_recv(2)
    assert pool.rand_step(root[[0, 2, 4]])["next"].batch_size == torch.Size([3])
    pool.reset()
