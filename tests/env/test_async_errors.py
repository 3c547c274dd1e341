"""Envs in flight when something is wrong: refused calls, failures, interrupts, a pool that closes."""

import threading
import time

import pytest
import torch
from building import load_fault_plugin
from cases import cases
from flights import KINDS, calls_of, sleeper, without_memory
from tensordict import TensorDict

from torchrl_pool import EnvFailure, _core

load_fault_plugin()


@pytest.mark.parametrize("kind", cases(default=["step_and_maybe_reset", "reset"], also=KINDS))
def test_refused_sends_change_nothing(kind, make_pool):
    pool = make_pool(seed=0)
    root = pool.rand_action(pool.reset())
    send, receive = calls_of(pool, kind)
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


@pytest.mark.parametrize("kind", cases(default=["step_and_maybe_reset", "reset"], also=KINDS))
def test_refused_receives(kind, make_pool):
    pool = make_pool(seed=0)
    root = pool.rand_action(pool.reset())
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
    with pytest.raises(RuntimeError, match="env 0 was not sent alone"):
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


@pytest.mark.parametrize("alone", cases([False, True]))
@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_an_interrupt_while_memory_is_made_loses_no_result(error, alone, make_pool):
    pool = make_pool(num_envs=2, seed=0)
    root = pool.rand_action(pool.reset())
    if alone:
        pool.async_step_and_maybe_reset_send(root[0], env_index=0)
    else:
        pool.async_step_and_maybe_reset_send(root, env_index=[0, 1])

    def receive():
        if alone:
            return pool.async_step_and_maybe_reset_recv(env_index=0)
        return pool.async_step_and_maybe_reset_recv(2)

    with without_memory(pool, error):
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
    root = pool.rand_action(pool.reset())
    pool.async_step_send(root[[0]], env_index=[0])
    for call in (pool.reset, lambda: pool.step(root), lambda: pool.step_and_maybe_reset(root), pool.rollout):
        with pytest.raises(RuntimeError, match="env 0 is in flight"):
            call(*([3] if call == pool.rollout else []))
    with pytest.raises(RuntimeError, match="env 0 is in flight"):
        pool.get_state(0)
    assert pool.get_state(1)
    pool.async_step_recv()
    pool.step(root)


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


def test_close_just_before_results_are_received(make_pool):
    pool = make_pool(seed=0)
    root = pool.rand_action(pool.reset())
    pool.async_step_send(root[[0]], env_index=[0])
    pool._running().close()  # as far as another thread has come, which closes the env
    with pytest.raises(RuntimeError, match="this pool is closed"):
        pool.async_step_recv()


def test_a_call_without_memory_for_its_results_is_refused(make_pool):
    pool = make_pool()
    with pytest.raises(TypeError, match="expected tensors for the results"):
        _core.Calls().send(pool._simulators.start(), _core.Op.reset, None, [0], False, {})
    pool.async_reset_send()
    assert len(pool.async_reset_recv(pool.num_envs)) == pool.num_envs


@pytest.mark.parametrize("shrink", cases(["tensor", "storage"]))
def test_a_tensor_that_has_shrunk_since_it_was_sent_is_not_read(make_pool, shrink):
    """Rows of two sends are gathered by their addresses."""
    pool = make_pool(num_envs=4)
    root = pool.rand_action(pool.reset())
    marks = torch.arange(2.0)
    pool.async_step_send(root[:2].set("mark", marks), [0, 1])
    pool.async_step_send(root[2:].set("mark", torch.arange(2.0)), [2, 3])
    (marks if shrink == "tensor" else marks.untyped_storage()).resize_(0)
    with pytest.raises((IndexError, RuntimeError), match=r"smaller since|index|storage"):
        pool.async_step_recv(4)


@pytest.mark.parametrize("limit", [{"min_get": 2**70}, {"max_get": 2**70}, {"min_get": 1.5}])
def test_limits_that_the_executor_cannot_count(make_pool, limit):
    pool = make_pool()
    pool.async_step_send(pool.rand_action(pool.reset()))
    with pytest.raises((ValueError, TypeError), match=next(iter(limit))):
        pool.async_step_recv(**limit)
