"""Envs of Python that are saved, set back, failed and interrupted where it is awkward."""

import gc
import os
import random
import signal
import sys
import threading
import time
from functools import partial
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import torch
from cases import cases
from launched import killed, open_files
from python_envs import WHERE
from torchrl.envs import (
    StepCounter,
    TransformedEnv,
)

from torchrl_pool import EnvFailure, PoolEnv, fuse
from torchrl_pool._processes import launching
from torchrl_pool._processes.lines import Line
from torchrl_pool._workers import worker, worker_set


class Steps(gym.Env):
    """Counts its steps and resets; raises what it is told to."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (1,), np.float64)
    action_space = gym.spaces.Discrete(2)
    steps = resets = 0
    raises = None  # where, what
    saving_takes = 0.0

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.steps, self.resets = 0, self.resets + 1
        self._raise_in("reset")
        return np.zeros(1), {}

    def step(self, action):
        self.steps += 1
        self._raise_in("step")
        return np.full(1, float(self.steps)), 1.0, False, False, {}

    def get_state(self):
        time.sleep(self.saving_takes)
        return self.steps

    def set_state(self, state):
        self.steps = state

    def _raise_in(self, method):
        if self.raises and self.raises[0] == method:
            error, self.raises = self.raises[1], None
            raise error


@pytest.fixture(params=WHERE.values(), ids=WHERE)
def make_pool(request):
    pools = []

    def make(num_envs=2, **options):
        pools.append(PoolEnv(Steps, num_envs, **request.param, **options))
        return pools[-1]

    yield make
    for pool in pools:
        pool.close()


def step(pool):
    return pool.step(pool.rand_action())["next"]


def test_a_limit_counts_from_where_a_state_was_saved(make_pool):
    pool = make_pool(max_episode_steps=10)
    pool.reset()
    step(pool)
    step(pool)
    states = pool.get_state()
    for _ in range(6):
        step(pool)
    pool.set_state(states)
    truncated = [step(pool)["truncated"].flatten().tolist() for _ in range(8)]
    assert truncated == [[False, False]] * 7 + [[True, True]]


def test_a_state_revives_an_env_that_has_failed(make_pool):
    pool = make_pool()
    pool.reset()
    step(pool)
    states = pool.get_state()
    pool.set_attr("raises", [("step", ValueError("ill"))], env_index=[1])
    with pytest.raises(EnvFailure):
        step(pool)
    pool.set_state(states[1], env_index=1)
    assert step(pool)["observation"].flatten().tolist() == [3, 2]
    assert pool.get_attr("resets") == [1, 1]


def test_a_state_for_an_env_that_was_never_reset(make_pool):
    pool, fresh = make_pool(), make_pool()
    pool.reset()
    step(pool)
    fresh.set_state(pool.get_state())
    assert fresh.get_attr("resets") == [0, 0]
    assert step(fresh)["observation"].flatten().tolist() == [2, 2]


def test_sending_while_a_state_is_saved(make_pool):
    """Python's own lock is not held where the pool's is waited for."""
    pool = make_pool()
    pool.reset()
    pool.set_attr("saving_takes", 0.5)
    saver = threading.Thread(target=pool.get_state, args=(0,))
    saver.start()
    time.sleep(0.1)
    pool.async_reset_send(env_index=[1])
    assert pool.async_reset_recv(1)["env_index"].tolist() == [1]
    saver.join()


@pytest.mark.parametrize("interrupted", cases([0, 1]))
def test_an_interrupt_in_a_reset_that_a_transform_asks_for(interrupted):
    pool = PoolEnv(Steps, 2, num_workers=0)
    env = fuse(TransformedEnv(pool, StepCounter(max_steps=2)))
    root = env.reset()
    _, root = env.step_and_maybe_reset(env.rand_action(root))
    pool.set_attr("raises", [("reset", KeyboardInterrupt())], env_index=[interrupted])
    with pytest.raises(KeyboardInterrupt):
        env.step_and_maybe_reset(env.rand_action(root))
    assert env.reset()["step_count"].tolist() == [[0], [0]]
    assert env.rollout(3, break_when_any_done=False).shape == torch.Size([2, 3])


@pytest.mark.parametrize("character", cases(default=["€", "😀"], also=["é"]))
def test_a_message_that_is_cut_ends_between_characters(character):
    """Wherever its end may lie among the bytes of a character."""

    def sick(shift):
        env = Steps()
        env.raises = ("reset", ValueError("x" * shift + character * 20000))
        return env

    pool = PoolEnv([partial(sick, shift) for shift in range(4)], 4, num_workers=1)
    with pytest.raises(EnvFailure) as raised:
        pool.reset()
    assert raised.value.env_index == [0, 1, 2, 3]
    for message in raised.value.messages:
        assert character * 1000 in message
        assert "\ufffd" not in message.lstrip("\ufffd")
    pool.close()


# ---- questions and answers


def test_arguments_larger_than_a_channel_holds(make_pool):
    pool = make_pool()
    pool.reset()
    time.sleep(0.3)  # the workers sleep
    block = np.arange(1 << 20)
    for _ in range(3):
        pool.set_attr("block", block)
    assert all(np.array_equal(one, block) for one in pool.get_attr("block"))
    assert step(pool)["observation"].flatten().tolist() == [1, 1]


def test_close_after_a_long_question_was_interrupted(monkeypatch):
    """What the env never reads is not waited for."""
    monkeypatch.setattr(worker_set, "CLOSING_SECONDS", 1.0)
    pool = PoolEnv(Steps, 2, num_workers=1)
    pool.reset()
    pool.set_attr("saving_takes", 60.0)
    for name, arguments in (("call", ("get_state",)), ("set_attr", ("block", np.zeros(1 << 20)))):
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            getattr(pool, name)(*arguments)
    begin = time.monotonic()
    pool.close()
    assert time.monotonic() - begin < 20


def test_questions_of_several_threads():
    pool = PoolEnv(Steps, 4, num_workers=2)
    pool.reset()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [
            threading.Thread(target=lambda: [pool.get_attr("resets") for _ in range(300)], daemon=True)
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert not any(thread.is_alive() for thread in threads)
    finally:
        sys.setswitchinterval(interval)
    pool.close()


# ---- what a failure says


@pytest.mark.parametrize("num_workers", cases([0, 1]))
def test_texts_that_utf_8_cannot_hold(num_workers):
    env = Steps()
    env.raises = ("reset", ValueError("cannot read " + os.fsdecode(b"caf\xe9.xml")))
    pool = PoolEnv(lambda: env, 1, num_workers=num_workers)
    with pytest.raises(EnvFailure, match="cannot read caf"):
        pool.reset()
    assert pool.reset().shape == torch.Size([1])


class Wrong(Steps):
    """Writes what its space does not hold."""

    observation_space = gym.spaces.Discrete(3)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        return 0, {}

    def step(self, action):
        return 3, 1.0, False, False, {}


@pytest.mark.parametrize("num_workers", cases([0, 1]))
def test_what_the_executor_finds_wrong_is_said(num_workers):
    pool = PoolEnv(Wrong, 1, num_workers=num_workers)
    pool.reset()
    with pytest.raises(EnvFailure, match="wrote 3 to 'observation'"):
        step(pool)


# ---- spaces and limits


@pytest.mark.parametrize(
    ("limit", "ends"), cases(default=[(600, [600]), (150, [150, 300, 450, 600])], also=[(None, [])])
)
def test_a_limit_takes_the_place_of_the_registered_one(limit, ends):
    pool = PoolEnv("gymnasium:MountainCar-v0", 1, num_workers=0, max_episode_steps=limit)
    data = pool.rollout(601, break_when_any_done=False)
    assert (data["next", "done"][0].flatten().nonzero() + 1).flatten().tolist() == ends


class InterruptAt:
    """Raises KeyboardInterrupt at the n-th event of the code of a folder that this thread runs."""

    def __init__(self, folder, number):
        self.folder, self.left = str(folder), number

    def __enter__(self):
        gc.disable()  # other pools, which end meanwhile, are not what is interrupted
        sys.settrace(self)

    def __exit__(self, *error):
        sys.settrace(None)
        gc.enable()

    def __call__(self, frame, event, argument):
        if not frame.f_code.co_filename.startswith(self.folder) or self.left == 0:
            return None
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt
        return self


@pytest.mark.parametrize("call", ["reset", "step"])
def test_an_interrupt_anywhere_in_the_callers_share(call):
    """Between two envs, in code that is no env's, it leaves nothing that the next call would wait for."""
    pool = PoolEnv("gymnasium:CartPole-v1", 4, num_workers=0)
    expected = PoolEnv("gymnasium:CartPole-v1", 4, num_workers=0).reset(seed=5)
    at, was_interrupted = 0, True
    while was_interrupted:
        at += 1
        root = pool.reset(seed=1)
        for _ in range(8 if call == "step" else 0):  # until an episode ends
            root = pool.step_and_maybe_reset(root.set("action", pool.action_spec.one()))[1]
        root.set("action", pool.action_spec.one())
        interrupt = InterruptAt(Path(worker.__file__).parent, at)
        try:
            with interrupt:
                pool.reset() if call == "reset" else pool.step_and_maybe_reset(root)
        except KeyboardInterrupt:
            pass
        was_interrupted = interrupt.left == 0
        root = pool.reset(seed=5)
        assert torch.equal(root["observation"], expected["observation"])
    assert at > 10
    pool.close()


@pytest.mark.parametrize("call", ["get_state", "set_state"])
def test_an_interrupt_while_a_state_is_saved_or_set(call):
    pool = PoolEnv(Steps, 3, num_workers=0)
    pool.reset()
    states = pool.get_state()
    interrupted = pool._source.workers._local._adapters[2].env

    def interrupt(*arguments):
        raise KeyboardInterrupt

    setattr(interrupted, call, interrupt)
    with pytest.raises(KeyboardInterrupt):
        pool.get_state() if call == "get_state" else pool.set_state(states)
    delattr(interrupted, call)
    pool.set_state(pool.get_state())
    pool.reset()
    pool.close()


@pytest.mark.parametrize("interrupt", [RuntimeError, KeyboardInterrupt, TimeoutError, InterruptedError])
@pytest.mark.parametrize("when", cases(["before", "after"]))
def test_an_interrupt_around_an_answer(monkeypatch, interrupt, when):
    """The next question gets its own."""
    pool = PoolEnv(Steps, 4, num_workers=2)
    pool.reset()
    recv_bytes = Line.recv_bytes

    def interrupted(channel):
        monkeypatch.setattr(Line, "recv_bytes", recv_bytes)
        if when == "after":
            recv_bytes(channel)
        raise interrupt  # from a handler of signals

    monkeypatch.setattr(Line, "recv_bytes", interrupted)
    with pytest.raises(interrupt):
        pool.get_attr("steps")
    assert pool.get_attr("resets") == [1] * 4
    pool.close()


class InterruptAtCall(InterruptAt):
    """The same at the n-th call that this code makes, where Python looks for signals."""

    def __enter__(self):
        gc.disable()
        sys.setprofile(self.profile)

    def __exit__(self, *error):
        sys.setprofile(None)
        gc.enable()

    def profile(self, frame, event, argument):
        leaves_block = event == "c_call" and argument.__name__ == "__exit__"  # before which none is handled
        if event != "return" and not leaves_block:
            self(frame, event, argument)


def test_an_interrupt_while_a_worker_is_replaced():
    """Whenever it comes, the executor is left with a descriptor of the worker."""
    pool = PoolEnv(Steps, 2, num_workers=1)
    pool.reset()
    at, was_interrupted, folder = 0, True, Path(worker_set.__file__)
    while was_interrupted:
        at += 1
        workers = pool._source.workers._workers
        killed(workers[0].pid)
        interrupt = InterruptAtCall(folder, at)
        try:
            with interrupt:
                pool.reset()
        except KeyboardInterrupt:
            pass
        was_interrupted = interrupt.left == 0
        files = [os.open(os.devnull, os.O_RDONLY) for _ in range(5)]  # which get numbers that are free
        pool.reset()
        assert step(pool)["observation"].flatten().tolist() == [1, 1]
        for file in files:
            os.close(file)
    assert at > 15
    pool.close()


def test_interrupts_while_all_workers_are_asked():
    """Whenever they come, the next question is answered."""
    pool, rng = PoolEnv(Steps, 2, num_workers=2), random.Random(0)
    pool.reset()
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        for _ in range(1000):
            try:
                signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-5, 1e-3))
                while True:
                    pool.get_attr("steps")
            except KeyboardInterrupt:
                pass
            assert pool.get_attr("resets") == [1, 1]
    finally:
        signal.signal(signal.SIGALRM, before)
    pool.close()


def test_an_interrupt_as_a_pool_begins_to_close():
    """Its workers are closed nevertheless, and the next reset starts new ones."""
    pool = PoolEnv(Steps, 2, num_workers=1)
    pool.reset()
    at_attribute = InterruptAtCall(Path(torch.nn.modules.module.__file__), 1)
    with pytest.raises(KeyboardInterrupt), at_attribute:
        pool.close()
    assert not pool._source.workers._workers
    assert pool.reset()["observation"].flatten().tolist() == [0, 0]
    pool.close()


def test_an_interrupt_while_the_processes_are_waited_for(monkeypatch):
    pool = PoolEnv(Steps, 2, num_workers=2)
    pool.reset()
    descriptors = open_files()
    is_ready = launching.is_ready

    def interrupt(*arguments):
        monkeypatch.setattr(launching, "is_ready", is_ready)
        raise KeyboardInterrupt

    for _ in range(3):
        monkeypatch.setattr(launching, "is_ready", interrupt)
        with pytest.raises(KeyboardInterrupt):
            pool.close()
        pool.reset()  # all is begun anew
    assert open_files() <= descriptors
    pool.close()
