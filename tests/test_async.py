"""Envs in flight: the contract of TorchRL's AsyncEnvPool, and that nothing is lost, repeated or reordered."""

import random
import threading
import time

import numpy as np
import pytest
import torch
from building import build_plugin, load_fault_plugin
from tensordict import TensorDict
from tensordict.tensorclass import NonTensorStack

from torchrl_pool import EnvFailure, PoolEnv, load_plugin

load_fault_plugin()
load_plugin(build_plugin("spaces"))
KINDS = ("step", "step_and_maybe_reset", "reset")


@pytest.fixture
def make_pool():
    pools = []

    def make(task="CartPole-v1", num_envs=6, **kwargs):
        pools.append(PoolEnv(task, num_envs, device="cpu", **kwargs))
        return pools[-1]

    yield make
    for pool in pools:
        pool.close(raise_if_closed=False)


def with_actions(pool, root, actions):
    return root.set("action", actions)


def sync_trajectories(pool, actions):
    """Per env, the stacked "next" entries of stepping with actions ``[T, N, …]``."""
    root = pool.reset()
    out = []
    for action in actions:
        data, root = pool.step_and_maybe_reset(root.set("action", action))
        out.append(data)
    return torch.stack(out, 1)


@pytest.mark.parametrize("num_threads", [1, 2, 4])
@pytest.mark.parametrize("task", ["CartPole-v1", "Pendulum-v1", "InvertedPendulum-v5"])
def test_trajectories_are_the_synchronous_ones(task, num_threads, make_pool):
    """Random subsets in flight, in random order: each env's transitions are those of a synchronous pool."""
    num_envs, steps = 6, 150
    keys = ("step_count", "episode_reward", "is_init")
    reference = make_pool(task, num_envs, seed=3, info_keys=keys, max_episode_steps=20)
    actions = torch.stack([reference.rand_action()["action"] for _ in range(steps)])
    expected = sync_trajectories(reference, actions)

    pool = make_pool(task, num_envs, seed=3, info_keys=keys, max_episode_steps=20, num_threads=num_threads)
    rng = random.Random(0)
    pool.async_reset_send()
    waiting = list(pool.async_reset_recv(num_envs).unbind(0))
    received = [[] for _ in range(num_envs)]
    in_flight = 0
    while any(len(rows) < steps for rows in received):
        rng.shuffle(waiting)
        count = rng.randint(0 if in_flight else min(1, len(waiting)), len(waiting))
        chosen, waiting = waiting[:count], waiting[count:]
        if chosen:
            root = torch.stack(chosen)
            index = root["env_index"]
            root["action"] = torch.stack([actions[len(received[i]), i] for i in index.tolist()])
            pool.async_step_and_maybe_reset_send(root)
            in_flight += count
        least = rng.randint(1, in_flight)
        data, root = pool.async_step_and_maybe_reset_recv(least, max_get=rng.choice([None, least]))
        assert data["env_index"].tolist() == sorted(set(data["env_index"].tolist()))
        assert torch.equal(data["env_index"], root["env_index"])
        in_flight -= len(data)
        for row, next_root in zip(data.unbind(0), root.unbind(0), strict=True):
            env = int(row["env_index"])
            received[env].append(row.exclude("env_index"))
            if len(received[env]) < steps:
                waiting.append(next_root.exclude("action"))
    for env in range(num_envs):
        got = torch.stack(received[env])
        assert set(got.keys(True, True)) == set(expected.keys(True, True))
        assert (got == expected[env]).all()


def test_a_hundred_thousand_steps_from_many_threads(make_pool):
    """Several threads send and receive, with delays: every transition once, and in order per env."""
    num_envs, steps = 32, 100_000
    pool = make_pool("CartPole-v1", num_envs, num_threads=4, info_keys=("step_count",), seed=0)
    pool.async_reset_send()
    first = pool.async_reset_recv(num_envs)
    counts = [0] * num_envs
    last_step = [0] * num_envs
    lock = threading.Lock()
    errors = []
    done = threading.Event()
    total = 0

    def work(seed):
        nonlocal total
        rng = random.Random(seed)
        try:
            while not done.is_set():
                try:
                    data, root = pool.async_step_and_maybe_reset_recv(
                        1, max_get=rng.choice([1, 3, 8, 20]), timeout=0.02 if rng.random() < 0.01 else None
                    )
                except TimeoutError:
                    continue
                except RuntimeError as error:
                    if "outstanding" not in str(error):
                        raise
                    time.sleep(1e-4)  # all envs are with the other threads
                    continue
                with lock:
                    for env, now, ended in zip(
                        data["env_index"].tolist(),
                        data["next", "step_count"].flatten().tolist(),
                        data["next", "done"].flatten().tolist(),
                        strict=True,
                    ):
                        if now != last_step[env] + 1:
                            errors.append((env, last_step[env], now))
                        last_step[env] = 0 if ended else now
                        counts[env] += 1
                        total += 1
                    if total >= steps:
                        done.set()
                if rng.random() < 0.005:
                    time.sleep(rng.random() * 2e-3)
                root["action"] = pool.full_action_spec["action"][: len(root)].rand()
                pool.async_step_and_maybe_reset_send(root)
        except Exception as error:
            errors.append(error)
            done.set()

    first["action"] = pool.rand_action()["action"]
    pool.async_step_and_maybe_reset_send(first)
    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert total >= steps
    assert min(counts) > 0


def test_step_and_reset_by_themselves(make_pool):
    pool = make_pool(num_envs=4, seed=0)
    twin = make_pool(num_envs=4, seed=0)
    pool.async_reset_send(env_index=[0, 1, 2, 3])
    root, expected = pool.async_reset_recv(4), twin.reset()
    assert torch.equal(root["observation"], expected["observation"])
    action = twin.rand_action()["action"]
    pool.async_step_send(root.set("action", action))
    data = pool.async_step_recv(4)
    expected = twin.step(expected.set("action", action))
    assert (data.exclude("env_index") == expected).all()


def test_extra_entries_travel_with_their_env(make_pool):
    """Of several sends of one kind, in one receive: tensors, nested ones, and what is no tensor."""
    pool = make_pool(num_envs=4, seed=0)
    root = pool.reset()
    root["action"] = pool.rand_action()["action"]
    root["hidden"] = torch.arange(4.0)
    root["net"] = TensorDict({"h": torch.arange(8).reshape(4, 2)}, [4])
    root["name"] = NonTensorStack("a", "b", "c", "d")
    for rows in ([2], [0, 3], [1]):
        pool.async_step_and_maybe_reset_send(root[rows], env_index=rows)
    data, next_root = pool.async_step_and_maybe_reset_recv(4)
    for td in (data, next_root):
        assert td["env_index"].tolist() == [0, 1, 2, 3]
        assert td["hidden"].tolist() == [0, 1, 2, 3]
        assert torch.equal(td["net", "h"], root["net", "h"])
        assert list(td["name"]) == ["a", "b", "c", "d"]
    assert torch.equal(data["action"], root["action"])
    assert "action" in next_root.keys()  # noqa: SIM118


def test_an_env_alone(make_pool):
    """Sent by an int, received by it, without a batch dimension; the others are not disturbed."""
    pool, twin = make_pool(seed=0), make_pool(seed=0)
    root, expected = pool.reset(), twin.reset()
    action = twin.rand_action()["action"]
    root["action"] = action
    pool.async_step_and_maybe_reset_send(root[2], env_index=2)
    pool.async_step_and_maybe_reset_send(root[[0, 1]], env_index=[0, 1])
    others, _ = pool.async_step_and_maybe_reset_recv(2)
    assert others["env_index"].tolist() == [0, 1]
    with pytest.raises(RuntimeError, match="only 0 are outstanding"):
        pool.async_step_and_maybe_reset_recv(1)
    data, next_root = pool.async_step_and_maybe_reset_recv(env_index=2)
    assert data.batch_size == next_root.batch_size == torch.Size([])
    expected, _ = twin.step_and_maybe_reset(expected.set("action", action))
    assert torch.equal(data["next", "observation"], expected["next", "observation"][2])
    with pytest.raises(RuntimeError, match="env 2 was not sent by itself"):
        pool.async_step_and_maybe_reset_recv(env_index=2)
    pool.async_reset_send(env_index=2)
    assert pool.async_reset_recv(env_index=2)["observation"].shape == (4,)


@pytest.mark.parametrize(
    "form",
    [
        list,
        tuple,
        iter,
        torch.tensor,
        np.array,
        lambda i: torch.tensor(i, dtype=torch.uint8),
        lambda i: torch.tensor(i)[:, None],
        lambda i: [np.int64(i[0]), torch.tensor(i[1])],
        lambda i: NonTensorStack(*i),
        "entry",
        "list entry",
    ],
)
def test_forms_of_env_index(form, make_pool):
    pool, twin = make_pool(seed=0), make_pool(seed=0)
    root = pool.reset()
    root["action"] = pool.rand_action()["action"]
    rows = root[[4, 1]]
    if form == "entry":
        pool.async_step_send(rows.set("env_index", torch.tensor([4, 1])))
    elif form == "list entry":
        pool.async_step_send(rows.set("env_index", NonTensorStack(4, 1)))
    else:
        pool.async_step_send(rows, env_index=form([4, 1]))
    data = pool.async_step_recv(2)
    assert data["env_index"].tolist() == [1, 4]
    twin.reset()
    assert (data["next"] == twin.step(root)["next"][[1, 4]]).all()


@pytest.mark.parametrize("form", [torch.tensor, np.array, list, lambda i: torch.tensor(i)[:, None]])
def test_env_index_may_be_a_mask(form, make_pool):
    pool = make_pool(seed=0)
    root = pool.reset()
    root["action"] = pool.rand_action()["action"]
    mask = form([False, True, False, False, True, False])
    pool.async_step_send(root[[1, 4]], env_index=mask)
    assert pool.async_step_recv(2)["env_index"].tolist() == [1, 4]
    assert pool.get_state(mask) == pool.get_state([1, 4])


@pytest.mark.parametrize(
    "form", [int, np.int64, np.uint8, torch.tensor, np.array, lambda i: torch.tensor(i, dtype=torch.int32)]
)
@pytest.mark.parametrize("kind", KINDS)
def test_forms_of_the_index_of_one_env(kind, form, make_pool):
    """A number of any kind stands for the env alone, whose row needs no batch dimension."""
    pool, twin = make_pool(seed=0), make_pool(seed=0)
    send, receive = getattr(pool, f"async_{kind}_send"), getattr(pool, f"async_{kind}_recv")
    root, expected = pool.reset(), twin.reset()
    root["action"] = pool.rand_action()["action"]
    send(root[2], env_index=form(2))
    got = receive(env_index=form(2))
    expected = getattr(twin, kind)(*([] if kind == "reset" else [expected.set("action", root["action"])]))
    if kind != "step_and_maybe_reset":
        got, expected = [got], [expected]
    for ours, theirs in zip(got, expected, strict=True):
        assert ours.batch_size == torch.Size([])
        ours, theirs = ours.exclude("env_index", "action"), theirs[2].exclude("action")
        assert (ours == theirs).all()
    assert pool.get_state(form(1)) == pool.get_state([1])


def test_rows_sent_by_their_own_entry_are_received_together(make_pool):
    pool = make_pool(seed=0)
    pool.async_reset_send()
    root = pool.rand_action(pool.async_reset_recv(6))
    for row in root.unbind(0):
        pool.async_step_send(row)
    assert pool.async_step_recv(6)["env_index"].tolist() == list(range(6))


@pytest.mark.parametrize("kind", KINDS)
def test_an_env_index_of_another_kind_is_refused(kind, make_pool):
    pool = make_pool(seed=0)
    root = pool.reset()
    root["action"] = pool.rand_action()["action"]
    send, receive = getattr(pool, f"async_{kind}_send"), getattr(pool, f"async_{kind}_recv")
    expected = "env_index: expected ints or a mask of 6 bools, got"
    for env_index, error, message in (
        (torch.tensor([0.0, 1.0]), TypeError, f"{expected} 0.0"),
        (torch.tensor(1.0), TypeError, f"{expected} 1.0"),
        (np.array([0.0, 1.0]), TypeError, f"{expected} 0.0"),
        (1.0, TypeError, f"{expected} 1.0"),
        ([0, 1.5], TypeError, f"{expected} 1.5"),
        (["0", "1"], TypeError, f"{expected} '0'"),
        ("01", TypeError, f"{expected} '01'"),
        (True, TypeError, f"{expected} True"),
        (torch.tensor(True), TypeError, f"{expected} True"),
        ([0, True], TypeError, f"{expected} True"),
        (torch.tensor([True, False]), ValueError, "expected a mask of 6 bools, got 2"),
        (torch.zeros(6, dtype=torch.bool), ValueError, "expected at least one env, got none"),
        ([], ValueError, "expected at least one env, got none"),
        (torch.tensor([0, 6]), IndexError, "expected 0 to 5, got 6"),
        (np.int64(-1), IndexError, "expected 0 to 5, got -1"),
    ):
        for call in (lambda index: send(root[[0, 1]], index), pool.get_state, lambda i: receive(env_index=i)):
            with pytest.raises(error, match=message):
                call(env_index)
        with pytest.raises((error, ValueError)):  # a row alone
            send(root[0], env_index)
        if hasattr(env_index, "shape") and env_index.shape == (2,):
            entry = root[[0, 1]].set("env_index", torch.as_tensor(env_index))
            for call in (send, pool.rand_action):
                with pytest.raises(error, match=message):
                    call(entry)
    with pytest.raises(ValueError, match=r"env_index: expected one env, got \[0, 1\]"):
        receive(env_index=[0, 1])
    send(root, range(6))  # none of them was left in flight
    receive(6)


# ---- random actions


def bounded(make_pool, num_envs=6, **kwargs):
    """Envs whose bounds of the action differ a hundredfold from one to the next."""
    gains = [100.0**-i for i in range(num_envs)]
    return make_pool("Fault-v0", num_envs, env_options=[{"gain": g} for g in gains], **kwargs), gains


@pytest.mark.parametrize("kind", ["reset", "step_and_maybe_reset"])
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


@pytest.mark.parametrize("task", ["CartPole-v1", "Pendulum-v1", "Mixed-v0", "Agents-v0"])
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


@pytest.mark.parametrize("kind", KINDS)
def test_refused_sends_change_nothing(kind, make_pool):
    pool = make_pool(seed=0)
    root = pool.reset()
    root["action"] = pool.rand_action()["action"]
    send, receive = getattr(pool, f"async_{kind}_send"), getattr(pool, f"async_{kind}_recv")
    state = pool.get_state()
    send(root[[1]], env_index=[1])
    with pytest.raises(RuntimeError, match="env 1 is in flight"):
        send(root[[0, 1]], env_index=[0, 1])
    with pytest.raises(ValueError, match="named twice"):
        send(root[[0, 2, 0]], env_index=[0, 2, 0])
    with pytest.raises(IndexError, match="expected 0 to 5, got 6"):
        send(root[[0, 2]], env_index=[0, 6])
    with pytest.raises(ValueError, match=r"expected batch size \[3\]"):
        send(root[[0, 2]], env_index=[0, 2, 3])
    with pytest.raises(KeyError, match="env_index"):
        send(root[[0, 2]])
    if kind != "reset":
        with pytest.raises(KeyError, match="action"):
            send(root[[0, 2]].exclude("action"), env_index=[0, 2])
        bad = root[[0, 2]].clone()
        bad["action"][1] = 0
        with pytest.raises(ValueError, match="env 2"):
            send(bad, env_index=[0, 2])
    receive(1)
    assert [a == b for a, b in zip(pool.get_state(), state, strict=True)] == [True, False, *[True] * 4]
    send(root[[0, 1, 2]], env_index=[0, 1, 2])  # none of them was left in flight
    receive(3)


@pytest.mark.parametrize("kind", KINDS)
def test_refused_receives(kind, make_pool):
    pool = make_pool(seed=0)
    root = pool.reset()
    root["action"] = pool.rand_action()["action"]
    receive = getattr(pool, f"async_{kind}_recv")
    for arguments, message in (
        ({"min_get": 0}, "min_get"),
        ({"min_get": 3, "max_get": 2}, "max_get"),
        ({"timeout": -1.0}, "timeout"),
        ({"timeout": float("nan")}, "timeout"),
    ):
        with pytest.raises(ValueError, match=message):
            receive(**arguments)
    with pytest.raises(RuntimeError, match="only 0 are outstanding"):
        receive(1)
    getattr(pool, f"async_{kind}_send")(root[[0, 1]], env_index=[0, 1])
    with pytest.raises(RuntimeError, match="only 2 are outstanding"):
        receive(3)
    with pytest.raises(RuntimeError, match="env 0 was not sent by itself"):
        receive(env_index=0)
    with pytest.raises(IndexError):
        receive(env_index=9)
    assert receive(2)["env_index"].tolist() == [0, 1] if kind != "step_and_maybe_reset" else receive(2)


def test_before_the_first_reset(make_pool):
    pool = make_pool()
    action = pool.rand_action()["action"]
    with pytest.raises(RuntimeError, match="reset"):
        pool.async_step_send(TensorDict({"action": action}, [6]), env_index=range(6))
    pool.async_reset_send(env_index=[0])
    pool.async_reset_recv()
    with pytest.raises(RuntimeError, match="env 1 has not been reset"):
        pool.async_step_send(TensorDict({"action": action[:2]}, [2]), env_index=[0, 1])


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_an_interrupt_while_memory_is_made_loses_no_result(error, alone, make_pool, monkeypatch):
    pool = make_pool(num_envs=2, seed=0)
    root = pool.reset()
    root["action"] = pool.rand_action()["action"]
    if alone:
        pool.async_step_and_maybe_reset_send(root[0], env_index=0)
    else:
        pool.async_step_and_maybe_reset_send(root, env_index=[0, 1])

    def receive():
        if alone:
            return pool.async_step_and_maybe_reset_recv(env_index=0)
        return pool.async_step_and_maybe_reset_recv(2)

    def fail(*args, **kwargs):
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(pool._allocator, "for_rows", fail)
        for _ in range(2):
            with pytest.raises(error):
                receive()
    data, _ = receive()
    assert (data["next", "observation"] != 0).any()
    assert pool.async_reset_send(env_index=[0, 1]) is None
    pool.async_reset_recv(2)
    pool.reset()


def test_synchronous_calls_wait_for_the_last_receive(make_pool):
    pool = make_pool(seed=0)
    root = pool.reset()
    root["action"] = pool.rand_action()["action"]
    pool.async_step_send(root[[0]], env_index=[0])
    for call in (pool.reset, lambda: pool.step(root), lambda: pool.step_and_maybe_reset(root), pool.rollout):
        with pytest.raises(RuntimeError, match="env 0 is in flight"):
            call(*([3] if call == pool.rollout else []))
    with pytest.raises(RuntimeError, match="env 0 is in flight"):
        pool.get_state(0)
    assert pool.get_state(1)
    pool.async_step_recv()
    pool.step(root)


def sleeper(make_pool, seconds, num_envs=3, **kwargs):
    return make_pool(
        "Fault-v0", num_envs, env_options=[{"sleep": s} for s in seconds], num_threads=3, **kwargs
    )


def test_the_quick_do_not_wait_for_the_slow(make_pool):
    pool = sleeper(make_pool, [0.3, 0.0, 0.0])
    root = pool.reset()
    root["action"] = pool.rand_action()["action"]
    pool.async_step_send(root, env_index=range(3))
    assert pool.async_step_recv(2)["env_index"].tolist() == [1, 2]
    with pytest.raises(TimeoutError, match="fewer than 1 results"):
        pool.async_step_recv(1, timeout=0.0)
    assert pool.async_step_recv(1)["env_index"].tolist() == [0]


def test_a_timeout_fills_up_to_the_deadline_and_loses_nothing(make_pool):
    pool = sleeper(make_pool, [0.4, 0.0, 0.05])
    root = pool.reset()
    root["action"] = pool.rand_action()["action"]
    pool.async_step_send(root, env_index=range(3))
    with pytest.raises(TimeoutError):
        pool.async_step_recv(3, timeout=0.01)
    assert pool.async_step_recv(1, timeout=0.2)["env_index"].tolist() == [1, 2]
    assert pool.async_step_recv(1, timeout=30.0)["env_index"].tolist() == [0]  # nothing more to wait for


def test_max_get(make_pool):
    pool = make_pool(seed=0)
    pool.async_reset_send()
    sizes = [len(pool.async_reset_recv(1, max_get=4)) for _ in range(2)]
    assert all(1 <= size <= 4 for size in sizes)
    rest = 6 - sum(sizes)
    if rest:
        pool.async_reset_recv(rest)


def test_failures_are_raised_by_the_receiver(make_pool):
    pool = make_pool(
        "Fault-v0", 4, env_options=[{"fault": "throw" if i == 1 else "none", "at": 2} for i in range(4)]
    )
    root = pool.reset()
    action = pool.rand_action()["action"]
    pool.async_step_send(root.set("action", action), env_index=range(4))
    root = pool.async_step_recv(4)["next"].set("action", action)
    pool.async_step_send(root, env_index=range(4))
    with pytest.raises(EnvFailure) as failure:
        pool.async_step_recv(4)
    assert failure.value.env_index == [1]
    assert pool.async_step_recv(3)["env_index"].tolist() == [0, 2, 3]  # theirs are not lost
    with pytest.raises(RuntimeError, match="env 1 has failed and must be reset"):
        pool.async_step_send(root[[1]], env_index=[1])
    pool.async_reset_send(env_index=[1])
    pool.async_reset_recv()
    pool.async_step_send(root[[1]], env_index=[1])
    pool.async_step_recv()
    pool.async_step_send(root[1], env_index=1)
    with pytest.raises(EnvFailure):
        pool.async_step_recv(env_index=1)


def test_close_while_envs_are_in_flight_and_a_thread_waits(make_pool):
    pool = sleeper(make_pool, [0.5, 0.5, 0.5])
    root = pool.reset()
    pool.async_step_send(root.set("action", pool.rand_action()["action"]), env_index=range(3))
    outcome = []

    def wait():
        try:
            pool.async_step_recv(3)
        except RuntimeError as error:
            outcome.append(str(error))

    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.1)
    pool.close()
    thread.join(timeout=10)
    assert not thread.is_alive()
    assert outcome
    assert "closed" in outcome[0]
    assert pool.reset()["observation"].shape[0] == 3  # it opens again


def test_received_tensors_belong_to_the_caller(make_pool):
    pool = make_pool(seed=0)
    root = pool.reset()
    kept = []
    for _ in range(20):
        root["action"] = pool.rand_action()["action"]
        pool.async_step_and_maybe_reset_send(root, env_index=range(6))
        data, root = pool.async_step_and_maybe_reset_recv(6)
        kept.append((data.clone(), data))
    for before, now in kept:
        assert (before == now).all()


def test_what_another_thread_received_meanwhile_is_no_result(make_pool):
    """One thread has a result and waits for more; another one receives it."""
    pool = sleeper(make_pool, [0.0, 2.0], num_envs=2)
    root = pool.reset()
    pool.async_step_send(root.set("action", torch.zeros(2, 2)))
    patient = []

    def wait_for_both():
        try:
            patient.append(pool.async_step_recv(1, timeout=1.0)["env_index"].tolist())
        except TimeoutError:
            patient.append("too late")

    thread = threading.Thread(target=wait_for_both)
    thread.start()
    time.sleep(0.3)
    first = pool.async_step_recv(1, max_get=1)["env_index"].tolist()
    thread.join()
    # Where this thread is the slower one, it gets the other result.
    assert (first, patient) in (([0], ["too late"]), ([1], [[0]]))
