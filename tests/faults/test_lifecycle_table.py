"""Opening, closing, asking and ending, each met by a second thread, a signal or a stop at a bad moment.

Each row is a program of its own under a timer, and must come to its end without an error.
"""

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest
from cases import cases
from processes import FOLDER, descendants, run

PRELUDE = """
import gymnasium, random
import numpy as np
signal.signal(signal.SIGALRM, signal.default_int_handler)

class Slow(gymnasium.Wrapper):
    "Its steps take so many seconds."
    def __init__(self, seconds, asks_to_pickle=False):
        super().__init__(gymnasium.make("CartPole-v1"))
        self.seconds = seconds
    def step(self, action):
        time.sleep(self.seconds)
        return self.env.step(action)

def slow(seconds, num_envs=2, **settings):
    env = PoolEnv(lambda: Slow(seconds), num_envs, **{"num_workers": 2, **settings})
    return env, env.rand_action(env.reset())

def in_thread(act):
    "Runs it beside; what it has raised, or None, is the first element of the list once it has ended."
    said = []
    def run():
        try:
            act()
            said.append(None)
        except BaseException as error:
            said.append(error)
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, said

def ends(thread, said, seconds=60):
    thread.join(seconds)
    assert not thread.is_alive(), "it hangs"
    return said[0]

def usable(env):
    env.reset()
    env.step(env.rand_action(env.reset()))
    env.close()
"""

KINDS = {"workers": {"num_workers": 2}, "here": {"num_workers": 0}}
PROGRAMS = {
    "close within a step, by a signal's handler": """
env, root = slow(0.5, num_workers=WORKERS)
refusals = []
def handler(*_):
    try:
        env.close()
    except RuntimeError as error:
        refusals.append(str(error))
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.2)
env.step(root.clone())
(refusal,) = refusals
assert "within a call" in refusal or "while it is in a call" in refusal, refusal
env.step(root.clone())
usable(env)
""",
    "an interrupted close while another thread steps": """
env, root = slow(1.5, num_workers=WORKERS)
step = in_thread(lambda: env.step(root.clone()))
time.sleep(0.4)
signal.setitimer(signal.ITIMER_REAL, 0.3)
refused(KeyboardInterrupt, "", env.close)
opened = [os.pipe() for _ in range(40)]  # numbers of descriptors that were closed too early
assert ends(*step) is None
env.step(root.clone())
usable(env)
""",
    "a reset while another thread's close waits": """
env, root = slow(1.0, num_workers=WORKERS)
step = in_thread(lambda: env.step(root.clone()))
time.sleep(0.3)
close = in_thread(env.close)
time.sleep(0.2)
reset = in_thread(env.reset)
assert [ends(*step), ends(*close), ends(*reset)] == [None] * 3
usable(env)
""",
    "a close while another thread asks envs": """
env, root = slow(0.0, num_workers=WORKERS)
asking = in_thread(lambda: env.call("__init__", 0.0) and [env.get_attr("seconds") for _ in range(300)])
time.sleep(0.05)
env.close()
error = ends(*asking)
assert error is None or "closed" in str(error), repr(error)
usable(env)
""",
    "four threads that open, step, reset, ask and close": """
env, root = slow(0.0, num_envs=4, num_workers=WORKERS)
said = {}
def storm(seed):
    rng = random.Random(seed)
    acts = [env.reset, env.start, env.close, lambda: env.step(root.clone()), lambda: env.get_attr("seconds"),
            lambda: env.set_seed(3), lambda: env.get_state(0), lambda: env.reset(options={})]
    end = time.monotonic() + 6
    while time.monotonic() < end:
        try:
            rng.choice(acts)()
        except RuntimeError as error:
            said.setdefault(type(error).__name__ + str(error)[-60:], error)
threads = [in_thread(lambda seed=seed: storm(seed)) for seed in range(4)]
for thread in threads:
    error = ends(*thread)
    if error is not None:
        raise error
# Failures of states within a race are refusals in words.
for error in said.values():
    words = ("closed", "in flight", "reset", "call", "interrupted")
    assert any(word in str(error) for word in words), repr(error)
usable(env)
""",
    "questions that are refused for a later worker": """
env, root = slow(0.0, num_workers=WORKERS)
for _ in range(700):
    try:
        env.set_attr("mark", [1.5, threading.Lock()])
    except TypeError:
        pass
if WORKERS:
    assert env.has_attr("mark") == [False, False]  # for all of them or for none
    refused(TypeError, "", env.load_state_dict, {}) if env._holds_torchrl else None
usable(env)
""",
    "answers that interrupted calls have left unread": """
env, root = slow(0.0, num_workers=WORKERS)
workers = env._source.workers
for _ in range(700 if WORKERS else 0):  # as a call that is interrupted between the two
    workers._send(workers._question(0, "get_attr", ([0], "seconds")))
assert env.get_attr("seconds") == [0.0, 0.0]
usable(env)
""",
    "an interrupt in a call of a single env, or of some": """
from torchrl_pool import single_envs
env, root = slow(0.6, num_envs=3, num_workers=min(WORKERS, 1))
first = single_envs(env)[0]()
td = first.rand_action(first.reset())
some = root[:2].set("env_index", torch.arange(2))
for call in (lambda: first.step(td.clone()), lambda: first.step_and_maybe_reset(td.clone()),
             lambda: env.rand_step(some.clone())):
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    refused(KeyboardInterrupt, "", call)
    first.reset()
    env.reset()
usable(env)
""",
}


@pytest.mark.timeout(240)
@pytest.mark.parametrize("kind", cases(KINDS))
@pytest.mark.parametrize("moment", cases(PROGRAMS))
def test_a_bad_moment(moment, kind):
    body = f"WORKERS = {KINDS[kind]['num_workers']}\n" + PROGRAMS[moment]
    assert run(PRELUDE + body, timeout=180) == ""


NATIVE = {
    "close within a step, by a signal's handler": """
env = PoolEnv("Fault-v0", 2, num_threads=2, sleep=1.0)
root = env.rand_action(env.reset())
refusals = []
def handler(*_):
    try:
        env.close()
    except RuntimeError as error:
        refusals.append(str(error))
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.4)
env.step(root.clone())
(refusal,) = refusals
assert "from within a call" in refusal, refusal
env.step(root.clone())
usable(env)
""",
    "interrupts anywhere in a close": """
for trial in range(400):
    env = PoolEnv("CartPole-v1", 8, num_threads=4)
    env.reset()
    try:
        signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-6, 4e-4))
        env.close()
        signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        pass
    try:
        signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        pass
    env.reset()
    env.close()
""",
    "functions of a MujocoPool that raise, or are interrupted, as results are received": """
from torchrl_pool import MujocoPool
mode = None
def act():
    if mode == "interrupt":
        time.sleep(2.0)
    elif mode == "error":
        raise ValueError("not now")
def reward(state, action, following):
    act()
    return torch.ones(len(action))
def observe(state):
    act()
    return state["qpos"]
env = MujocoPool("inverted_pendulum.xml", 3, observation=observe, reward=reward)
for kind in ("step", "step_and_maybe_reset", "reset"):
    for how in ("interrupt", "error"):
        root = env.reset()
        arguments = [] if kind == "reset" else [env.rand_action(root), [0, 1, 2]]
        getattr(env, f"async_{kind}_send")(*arguments)
        receive = getattr(env, f"async_{kind}_recv")
        mode = how
        if how == "interrupt":
            signal.setitimer(signal.ITIMER_REAL, 0.3)
        refused((KeyboardInterrupt, ValueError), "", receive, 3)
        mode = None
        received = receive(3, timeout=20)
        received = received[0] if isinstance(received, tuple) else received
        assert received["env_index"].tolist() == [0, 1, 2]
""",
    "rows under modes of floating-point numbers that are the caller's alone": """
env = PoolEnv("MountainCarContinuous-v0", 4096, num_threads=4, info_keys=["exact_reward"], seed=0)
root = env.reset()
torch.set_flush_denormal(True)
seen = set()
for _ in range(30):
    action = torch.zeros(4096, 1)
    action.view(torch.int32).fill_(70_000)  # 1e-40
    data, root = env.step_and_maybe_reset(root.set("action", action))
    seen.update(data["next", "exact_reward"].view(torch.int64).unique().tolist())
assert len(seen) == 1, seen
""",
}


@pytest.mark.timeout(240)
@pytest.mark.parametrize("moment", cases(NATIVE))
def test_a_bad_moment_of_native_envs(moment):
    assert run(PRELUDE + NATIVE[moment], timeout=180) == ""


GROUP = """
import gymnasium, os, signal, sys, time
from torchrl_pool import EnvFailure, PoolEnv
class Works(gymnasium.Wrapper):
    def step(self, action):
        end = time.process_time() + 0.1
        while time.process_time() < end:
            pass
        return self.env.step(action)
got = []
for name in sys.argv[1:]:
    signal.signal(getattr(signal, name), lambda number, _: got.append(number))
env = PoolEnv(lambda: Works(gymnasium.make("CartPole-v1")), 2, num_workers=2, step_timeout=2.0)
root = env.reset()
print("READY", flush=True)
end = time.monotonic() + 6
while time.monotonic() < end:
    root = env.step_and_maybe_reset(env.rand_action(root))[1]
assert set(got) == {getattr(signal, name) for name in sys.argv[1:]}
env.close()
print("DONE")
"""


def with_the_group(act, *arguments):
    """A program in a process group of its own, to which this is done once its workers are at work."""
    command = [sys.executable, "-c", textwrap.dedent(GROUP), *arguments]
    process = subprocess.Popen(
        command,
        cwd=FOLDER,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stdout.readline() == "READY\n"
        act(process.pid)
        assert process.communicate(timeout=60)[0] == "DONE\n"
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)


def test_signals_that_the_program_handles_end_no_worker():
    """A terminal sends them to a process group, a scheduler to each process of a job."""
    names = ["SIGUSR1", "SIGUSR2", "SIGTERM", "SIGHUP", "SIGXCPU", "SIGALRM", "SIGRTMIN"]

    def send(group):
        for name in names:
            for process in [group, *descendants(group)]:
                os.kill(process, getattr(signal, name))
            os.killpg(group, getattr(signal, name))
            time.sleep(0.2)

    with_the_group(send, *names)


def test_a_program_that_is_stopped_for_longer_than_its_time_limit():
    def stop(group):
        for _ in range(2):
            time.sleep(0.3)
            os.killpg(group, signal.SIGSTOP)
            time.sleep(3.0)
            os.killpg(group, signal.SIGCONT)

    with_the_group(stop)


def test_an_env_of_an_asynchronous_receive_closes_its_pool_while_another_thread_does():
    body = """
class Closes(gymnasium.Wrapper):
    def step(self, action):
        time.sleep(0.6)
        refused(RuntimeError, "within a call", env.close)
        refused(RuntimeError, "within a call", env.reset)
        return self.env.step(action)

env = PoolEnv(lambda: Closes(gymnasium.make("CartPole-v1")), 2)
env.async_step_send(env.rand_action(env.reset()))
receive = in_thread(lambda: env.async_step_recv(2))
time.sleep(0.2)
close = in_thread(env.close)
assert ends(*close) is None
ends(*receive)  # its results, or that the pool is closed
env.reset()
env.close()
"""
    assert run(textwrap.dedent(PRELUDE) + body) == ""
