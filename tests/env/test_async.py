"""Envs in flight: the contract of TorchRL's AsyncEnvPool, and that nothing is lost, repeated or reordered."""

import random
import threading
import time

import pytest
import torch
from building import load_fault_plugin
from cases import LONG
from flights import sleeper
from tensordict import TensorDict
from tensordict.tensorclass import NonTensorStack

load_fault_plugin()


def test_steps_from_many_threads(make_pool):
    """Several threads send and receive, with delays: every transition once, and in order per env."""
    num_envs, steps = 32, 100_000 if LONG else 10_000
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


def test_extra_entries_travel_with_their_env(make_pool):
    """Of several sends of one kind, in one receive: tensors, nested ones, and what is no tensor."""
    pool = make_pool(num_envs=4, seed=0)
    root = pool.rand_action(pool.reset())
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
    with pytest.raises(RuntimeError, match="env 2 was not sent alone"):
        pool.async_step_and_maybe_reset_recv(env_index=2)
    pool.async_reset_send(env_index=2)
    assert pool.async_reset_recv(env_index=2)["observation"].shape == (4,)


def test_the_quick_do_not_wait_for_the_slow(make_pool):
    pool = sleeper(make_pool, [1.0, 0.0, 0.0])
    root = pool.rand_action(pool.reset())
    pool.async_step_send(root, env_index=range(3))
    assert pool.async_step_recv(2)["env_index"].tolist() == [1, 2]
    with pytest.raises(TimeoutError, match=r"expected at least 1 result within 0.0 s, got fewer"):
        pool.async_step_recv(1, timeout=0.0)
    assert pool.async_step_recv(1)["env_index"].tolist() == [0]


def test_a_timeout_fills_up_to_the_deadline_and_loses_nothing(make_pool):
    pool = sleeper(make_pool, [1.5, 0.0, 0.05])
    root = pool.rand_action(pool.reset())
    pool.async_step_send(root, env_index=range(3))
    with pytest.raises(TimeoutError):
        pool.async_step_recv(3, timeout=0.01)
    assert pool.async_step_recv(1, timeout=0.5)["env_index"].tolist() == [1, 2]
    assert pool.async_step_recv(1, timeout=30.0)["env_index"].tolist() == [0]  # nothing more to wait for


def test_what_another_thread_received_meanwhile_is_no_result(make_pool):
    """One thread has a result and waits for more; another one receives it."""
    pool = sleeper(make_pool, [0.0, 2.0])
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


def test_an_env_is_in_flight_until_its_results_are_taken_over(make_pool, monkeypatch):
    """Another thread that sends it before is refused, and what travels with the results is what was sent."""
    pool = make_pool("CartPole-v1", 2)
    pool.async_reset_send()
    root = pool.async_reset_recv(2)
    root["action"] = pool.full_action_spec.rand()["action"]
    pool.async_step_and_maybe_reset_send(root.set("mark", torch.tensor([1, 2])))

    class SendsAgain:
        def receive(self, *arguments):
            results = calls.receive(*arguments)
            monkeypatch.undo()
            with pytest.raises(RuntimeError, match="in flight"):
                pool.async_step_and_maybe_reset_send(root.clone().set("mark", torch.tensor([3, 4])))
            return results

    calls = pool._stepper.calls
    monkeypatch.setattr(pool._stepper, "calls", SendsAgain())
    data, _ = pool.async_step_and_maybe_reset_recv(2)
    assert sorted(data["mark"].tolist()) == [1, 2]
    pool.async_step_and_maybe_reset_send(root.clone().set("mark", torch.tensor([3, 4])))
    data, _ = pool.async_step_and_maybe_reset_recv(2)
    assert sorted(data["mark"].tolist()) == [3, 4]
