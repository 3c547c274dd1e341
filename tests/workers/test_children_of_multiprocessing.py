"""A worker is what a child of multiprocessing is: what such a child is given, it is given too."""

import atexit
import contextlib
import multiprocessing as mp
import os
import tempfile
from functools import partial
from multiprocessing import shared_memory
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch
from cases import cases
from test_launching import asked
from torchrl.envs import EnvCreator, GymEnv, TransformedEnv, VecNorm, VecNormV2
from worker_bodies import answering

from torchrl_pool._processes.launching import Launcher

SPAWN = mp.get_context("spawn")


@pytest.fixture
def launch():
    """Starts workers that evaluate expressions of what they are given."""
    launchers = []

    def launch(given, count=1):
        launchers.append(Launcher(given))
        workers = [answering(launchers[-1]) for _ in range(count)]
        return workers if count > 1 else workers[0]

    yield launch
    for launcher in launchers:
        launcher.close()


def test_it_is_a_process_of_this_one(launch):
    first, second = launch([], 2)
    process = "__import__('multiprocessing').process"
    assert asked(first, f"{process}.parent_process().pid") == os.getpid()
    assert asked(first, f"{process}.parent_process().is_alive()")
    assert asked(first, f"bytes({process}.current_process().authkey)") == bytes(mp.current_process().authkey)
    (one,), (other,) = (asked(worker, f"{process}.current_process()._identity") for worker in (first, second))
    assert one != other
    assert asked(first, f"{process}.current_process().name") == f"PoolWorker-{one}"
    assert not asked(first, f"{process}.current_process().daemon")
    assert asked(first, "__import__('multiprocessing').get_start_method()") == mp.get_start_method()


def add(lock, value):
    for _ in range(500):
        with lock:
            value.value += 1


def test_locks_and_values_are_shared(launch):
    lock, value = SPAWN.Lock(), SPAWN.RawValue("i", 0)
    workers = launch([partial(add, lock, value)], 3)
    for worker in workers:
        worker.channel.send("factories[0]()")
    assert [worker.channel.recv() for worker in workers] == [None] * 3
    assert value.value == 1500


def test_what_waits_and_carries_is_shared(launch):
    given = [SPAWN.Event(), SPAWN.Queue(), SPAWN.Value("d", 1.5), SPAWN.Array("i", 3), *SPAWN.Pipe()]
    given += [
        SPAWN.Semaphore(2),
        SPAWN.Condition(),
        SPAWN.Barrier(2),
        SPAWN.JoinableQueue(),
        SPAWN.SimpleQueue(),
    ]
    worker = launch(given)
    event, queue, _, array, ours, theirs, semaphore, _, barrier, _, simple = given
    assert not asked(worker, "factories[0].is_set()")
    event.set()
    assert asked(worker, "factories[0].is_set()")
    queue.put("hello")
    assert asked(worker, "factories[1].get(timeout=10)") == "hello"
    asked(worker, "factories[1].put('back'), factories[10].put(3)")
    assert (queue.get(timeout=10), simple.get()) == ("back", 3)
    array[1] = 7
    assert asked(worker, "(factories[2].value, list(factories[3]))") == (1.5, [0, 7, 0])
    asked(worker, "factories[5].send([1, 2])")
    assert ours.recv() == [1, 2]
    asked(worker, "factories[6].acquire()")
    assert semaphore.acquire(block=False)
    assert not semaphore.acquire(block=False)
    worker.channel.send("factories[8].wait(10)")
    assert {barrier.wait(10), worker.channel.recv()} == {0, 1}
    theirs.close()


@pytest.mark.parametrize(
    "kind", cases(default=["RLock", "Event", "Condition"], also=["Lock", "Semaphore", "Queue"])
)
def test_what_is_for_forked_processes_alone_is_refused_by_name(kind):
    made = getattr(mp.get_context("fork"), kind)()
    with pytest.raises(TypeError, match=r"of multiprocessing's fork context.*get_context\('spawn'\)"):
        Launcher(lambda: made)


def test_managers_give_their_values(launch):
    with mp.Manager() as manager:
        level, settings = manager.Value("i", 3), manager.dict(a=1)
        first, second = launch([level, settings], 2)
        assert asked(first, "(factories[0].value, dict(factories[1]))") == (3, {"a": 1})
        asked(second, "factories[1].update(b=2)")
        level.value = 4
        assert asked(first, "(factories[0].value, dict(factories[1]))") == (4, {"a": 1, "b": 2})
        assert dict(settings) == {"a": 1, "b": 2}


@pytest.mark.parametrize("how", cases(["by name", "given"]))
def test_shared_memory_lives_on_when_the_pool_is_closed(how):
    memory = shared_memory.SharedMemory(create=True, size=16)
    shared = shared_memory.ShareableList([1, "two"])
    try:
        with contextlib.closing(Launcher([memory, shared] if how == "given" else [])) as launcher:
            worker = answering(launcher)
        module = "__import__('multiprocessing.shared_memory').shared_memory"
        names = f"({module}.SharedMemory({memory.name!r}), {module}.ShareableList(name={shared.shm.name!r}))"
        where = "factories" if how == "given" else f"vars(os).setdefault('_held', {names})"
        asked(worker, f"{where}[0].buf.__setitem__(0, 9), {where}[1].__setitem__(0, 8)")
        worker.channel.close()
        assert worker.wait(20)
        again = shared_memory.SharedMemory(memory.name)
        assert (again.buf[0], shared[0], shared[1]) == (9, 8, "two")
        again.close()
    finally:
        for one in (memory, shared.shm):
            one.close()
            one.unlink()


def test_however_many_descriptors(launch):
    ends = [end for _ in range(150) for end in SPAWN.Pipe(duplex=False)]
    worker = launch(ends)
    asked(worker, "[end.send(i) for i, end in enumerate(factories) if end.writable]")
    assert [end.recv() for end in ends if end.readable] == list(range(1, 300, 2))


def test_tensors_are_shared_where_they_are_shared_here(launch):
    shared, own = torch.zeros(2).share_memory_(), torch.zeros(2)
    parameter = torch.nn.Parameter(torch.zeros(2)).share_memory_()
    view = torch.arange(4).share_memory_()[2:]
    worker = launch([shared, own, parameter, view])
    shared[0], own[0], view[0] = 5, 5, 9
    parameter.data[1] = 3
    assert asked(worker, "[one.tolist() for one in factories]") == [[5, 0], [0, 0], [0, 3], [9, 3]]
    asked(worker, "factories[0].add_(1)")
    assert shared.tolist() == [6, 1]


class Reading(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (1,))
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, tensor=None, folder=None):
        self.tensor = tensor
        if folder is not None:
            self.held = tempfile.TemporaryDirectory(dir=folder)
            atexit.register(Path(folder, f"exited {os.getpid()}").touch)
            mp.util.Finalize(self, Path(folder, f"finalized {os.getpid()}").touch, exitpriority=1)
            print("made", flush=True)
            print("unflushed", end="")

    def reset(self, *, seed=None, options=None):
        value = 0.0 if self.tensor is None else self.tensor[0].item()
        return np.full(1, value, np.float32), {}

    def step(self, action):
        return self.reset()[0], 0.0, False, False, {}


def test_an_attribute_is_a_shared_tensor_too(make_pool):
    pool = make_pool(Reading, 2)
    tensor = torch.ones(1).share_memory_()
    pool.set_attr("tensor", [tensor, tensor])
    assert pool.reset()["observation"].tolist() == [[1], [1]]
    tensor[0] = 4
    assert pool.reset()["observation"].tolist() == [[4], [4]]


def test_a_program_of_a_worker_ends_as_programs_do(make_pool, tmp_path, capfd):
    """Functions of atexit run, finalizers and weakref's too, and outputs are complete."""
    held = tempfile.TemporaryDirectory(dir=tmp_path)  # one of this process
    pool = make_pool(partial(Reading, None, str(tmp_path)), 4)
    pool.reset()
    assert len(list(tmp_path.iterdir())) == 5
    pool.close()
    left = sorted(path.name.split()[0] for path in tmp_path.iterdir() if path != Path(held.name))
    assert left == ["exited", "exited", "finalized", "finalized"]  # of two workers
    assert Path(held.name).exists()
    assert capfd.readouterr().out.count("unflushed") == 4


def normalized(kind):
    env = TransformedEnv(GymEnv("Pendulum-v1"), kind(in_keys=["observation"], decay=1.0))

    def count():
        state = env.transform.state_dict()["_extra_state"]
        return next(int(value) for name, value in state.items() if "count" in name)

    env.base_env.unwrapped.count = count
    return env


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", cases([VecNorm, VecNormV2]))
def test_statistics_of_an_env_creator_are_shared(make_pool, kind):
    """All envs of all workers count together, as in ``ParallelEnv``."""
    pool = make_pool(EnvCreator(partial(normalized, kind)), 2)
    before = pool.call("count")
    pool.rollout(10, break_when_any_done=False)
    after = pool.call("count")
    assert before[0] == before[1]
    assert after[0] == after[1]
    assert after[0] - before[0] == 22
