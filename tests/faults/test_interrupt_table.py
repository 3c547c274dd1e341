"""Ctrl-C comes out of the very call that it interrupts, whatever that waits for.

Each program goes through a table; one that hangs is killed, and the test fails with what it had printed.
"""

import pytest
from cases import LONG, cases
from processes import run_program

PRELUDE = """
import faulthandler, os, signal, sys, tempfile, threading, time
from functools import partial
import torch
from torchrl.envs import StepCounter, TransformedEnv
from torchrl_pool import EnvFailure, PoolEnv, fuse, load_plugin
from torchrl_pool._processes import launching
from torchrl_pool._workers import worker_set
from hanging_envs import Hanging
torch.set_num_threads(1)
signal.signal(signal.SIGINT, signal.default_int_handler)
worker_set.CLOSING_SECONDS = worker_set.RETURNING_SECONDS = 0.2

def rows(env, root):
    return env.rand_action(root.clone())

class Calls:
    "What waits, by the method of the env that hangs in it."
    @staticmethod
    def step(env, root): env.step(rows(env, root))
    @staticmethod
    def step_and_maybe_reset(env, root): env.step_and_maybe_reset(rows(env, root))
    @staticmethod
    def rollout(env, root): env.rollout(5, auto_reset=False, tensordict=root)
    @staticmethod
    def receive(env, root):
        env.async_step_send(rows(env, root), [0, 1])
        env.async_step_recv(2)
    @staticmethod
    def receive_alone(env, root):
        env.async_step_send(rows(env, root), [0, 1])
        env.async_step_recv(1)
        env.async_step_recv(1)
    @staticmethod
    def reset(env, root): env.reset()
    @staticmethod
    def get_state(env, root): env.get_state()
    @staticmethod
    def set_state(env, root): env.set_state(states, [0, 1])
    @staticmethod
    def render(env, root): env.render()
    @staticmethod
    def call(env, root): env.call("think")
    @staticmethod
    def get_attr(env, root): env.get_attr("opinion")
    @staticmethod
    def set_attr(env, root): env.set_attr("opinion", 1)
    @staticmethod
    def close(env, root): env.close()
    @staticmethod
    def seed(env, root): env.set_seed(3)

HANGS = {"rollout": "step", "step_and_maybe_reset": "step", "receive": "step", "receive_alone": "step",
         "call": "think", "get_attr": "opinion", "set_attr": "opinion", "seed": "reset"}

def interrupted(name, act):
    "The call raises KeyboardInterrupt soon after the signal."
    print(name, end=": ", flush=True)
    faulthandler.dump_traceback_later(30, exit=True)
    sent = []
    def send():
        time.sleep(0.4)
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)
    thread = threading.Thread(target=send)
    thread.start()
    try:
        act()
    except KeyboardInterrupt:
        pass
    else:
        raise AssertionError(f"{name} returned")
    assert sent, "it was interrupted before the signal"
    seconds = time.monotonic() - sent[0]
    thread.join()
    print(f"{seconds:.2f} s", end=", ", flush=True)

def kill_worker(env):
    "It has ended when this returns: a signal takes a moment, in which a worker may answer a step."
    worker = env._source.workers._workers[0]
    os.kill(worker.pid, signal.SIGKILL)
    assert worker.wait(20)

def ends(env):
    "It is closed cleanly, and begins anew."
    env.close()
    faulthandler.cancel_dump_traceback_later()
    print("closed", flush=True)
"""


def run(body, timeout=110):
    """What the program prints, which must come to its end."""
    result = run_program(PRELUDE + body, timeout=timeout)
    assert result.returncode == 0, f"exit code {result.returncode}\n{result.stdout}\n{result.stderr}"
    return result.stdout


WORKERS = """
for kind, settings in KINDS.items():
    for name in NAMES:
        where = HANGS.get(name, name)
        env = PoolEnv(partial(Hanging, where), 2, **settings)
        root = env.reset()
        states = env.get_state()
        env.call("arm")
        interrupted(f"{kind} {name}", lambda: getattr(Calls, name)(env, root))
        ends(env)
print("all")
"""
FEW = ["step", "receive", "reset", "get_state", "set_state", "call"]
ALL = [*FEW, "step_and_maybe_reset", "rollout", "receive_alone", "seed", "render", "get_attr", "set_attr"]


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("here", {"num_workers": 0}),
        ("workers", {"num_workers": 2}),
        ("timed", {"num_workers": 1, "step_timeout": 60.0}),
        ("respawned", {"num_workers": 2, "respawn": True}),
    ],
)
def test_envs_of_python(kind, settings):
    names = ALL if LONG or kind in ("workers", "here") else FEW
    body = f"KINDS, NAMES = {{{kind!r}: {settings}}}, {names}\n{WORKERS}"
    assert run(body).endswith("all\n")


def test_closing_envs_that_hang_in_their_close():
    body = """
worker_set.CLOSING_SECONDS = 60.0
env = PoolEnv(partial(Hanging, "close"), 2, num_workers=2)
env.reset()
env.call("arm")
interrupted("close", env.close)
env.reset()
worker_set.CLOSING_SECONDS = worker_set.RETURNING_SECONDS = 0.2
ends(env)
print("all")
"""
    assert run(body).endswith("all\n")


def test_fused_steps_whose_resets_hang():
    """What a fused StepCounter ends, the executor resets."""
    body = """
for workers in (2, 0):
    pool = PoolEnv(partial(Hanging, "reset"), 2, num_workers=workers)
    env = fuse(TransformedEnv(pool, StepCounter(max_steps=2)))
    _, root = env.step_and_maybe_reset(env.rand_action(env.reset()))
    pool.call("arm")
    interrupted(f"fused, {workers} workers", lambda: env.step_and_maybe_reset(env.rand_action(root)))
    ends(env)
print("all")
"""
    assert run(body).endswith("all\n")


def test_workers_that_are_replaced():
    """A new process that hangs as it makes its envs; and a signal in the midst of it."""
    body = """
with tempfile.TemporaryDirectory() as folder:
    env = PoolEnv(partial(Hanging, "__init__", f"{folder}/made"), 1, num_workers=1, respawn=True)
    _, root = env.step_and_maybe_reset(env.rand_action(env.reset()))
    kill_worker(env)
    interrupted("respawn", lambda: env.step_and_maybe_reset(env.rand_action(root)))
    ends(env)
    env = PoolEnv(partial(Hanging, "__init__", f"{folder}/again"), 1, num_workers=1)
    root = env.reset()
    kill_worker(env)
    try:
        env.step(env.rand_action(root))
    except EnvFailure:
        pass
    interrupted("reset", env.reset)
    ends(env)
env = PoolEnv(partial(Hanging, "nowhere"), 2, num_workers=2, respawn=True)
root = env.reset()
_, root = env.step_and_maybe_reset(env.rand_action(root))
workers = env._source.workers
launch = workers._launch
def interrupted_launch(index):
    os.kill(os.getpid(), signal.SIGINT)
    return launch(index)
workers._launch = interrupted_launch
kill_worker(env)
try:
    env.step_and_maybe_reset(env.rand_action(root))
except KeyboardInterrupt:
    workers._launch = launch
else:
    raise AssertionError("nothing was raised")
root = env.reset()
data, _ = env.step_and_maybe_reset(env.rand_action(root))
assert data["next", "observation"].flatten().tolist() == [1, 1]
ends(env)
print("all")
"""
    assert run(body).endswith("all\n")


def test_while_another_thread_works():
    """The env is at work in one thread; the main thread waits for it, and other envs go on."""
    body = """
for name, main in [("get_state", "step"), ("call", "reset"), ("render", "receive"),
                   ("set_state", "get_state"), ("call", "call")]:
    where = HANGS.get(name, name)
    env = PoolEnv(partial(Hanging, where), 2, num_workers=2)
    root = env.reset()
    states = env.get_state(0) * 2
    env.call("arm", env_index=0)
    thread = threading.Thread(target=lambda: getattr(env, "call" if name == "call" else name)(
        *{"call": ("think",), "set_state": (states[:1],)}.get(name, ()), env_index=0), daemon=True)
    thread.start()
    time.sleep(0.2)
    mask = torch.tensor([False, True])
    for _ in range(20):
        env.step(rows(env, root).set("_step", mask))
    interrupted(f"{main} while {name} hangs", lambda: getattr(Calls, main)(env, root))
    env._source.workers._workers[0].kill()
    thread.join()
    ends(env)
print("all", flush=True)
os._exit(0)
"""
    assert run(body).endswith("all\n")


@pytest.mark.parametrize("caller", cases(["main", "thread"]))
def test_simulators_with_a_timeout(caller):
    """A thread of the pool is inside the simulator, whether it comes back in time or not."""
    body = """
import ctypes
from building import build_plugin
load_plugin(build_plugin("gated"))
gates = ctypes.CDLL(build_plugin("gated"))
CALLER = "%s"
for name in ("step", "step_and_maybe_reset", "receive", "reset"):
    env = PoolEnv("Gated-v0", 2, num_threads=2, step_timeout=60.0, categorical_action_encoding=True)
    root = env.reset()
    rows = lambda env, root: root.clone().set("action", torch.tensor([4, 0]))
    gates.set_gate(1, True)
    if name == "reset" or CALLER == "thread":
        thread = threading.Thread(target=lambda: env.step(rows(env, root)), daemon=True)
        thread.start()
        time.sleep(0.2)
        try:
            Calls.step(env, root)
        except RuntimeError as error:
            assert "in flight" in str(error), error
        gates.set_gate(1, False)
        thread.join()
        gates.set_gate(1, True)
    if name != "reset":
        interrupted(name, lambda: getattr(Calls, name)(env, root))
    gates.set_gate(1, False)
    env.reset() if name != "receive" else None
    ends(env)
print("all")
"""
    assert run(body % caller).endswith("all\n")


def test_rollouts_whose_groups_are_in_flight_together():
    """One group hangs as the other is stepped; a second signal comes before the first has had its effect."""
    body = """
from tensordict.nn import TensorDictModule
from torchrl_pool import PoolCollector
for hangs in ("step", "reset"):
    env = PoolEnv(partial(Hanging, hangs), 4, num_workers=2)
    policy = TensorDictModule(lambda seen: torch.tensor([1, 0]).expand(len(seen), 2),
                              in_keys=["observation"], out_keys=["action"])
    collector = PoolCollector(env, policy, frames_per_batch=40, total_frames=-1, double_buffered=True,
                              max_frames_per_traj=5 if hangs == "reset" else None)
    collector.rollout()
    env.call("arm", env_index=0)
    again = threading.Timer(1.2, os.kill, (os.getpid(), signal.SIGINT))
    again.start()
    interrupted(f"rollout, {hangs}", collector.rollout)
    again.join()
    kill_worker(env)
    env.reset()
    env.step(env.rand_action(env.reset()))
    ends(env)
print("all")
"""
    assert run(body).endswith("all\n")


def test_interrupts_of_asynchronous_calls_lose_and_mix_nothing():
    """Signals at any moment of a send or a receive: each result comes once, with what was sent with it."""
    body = """
import random
signal.signal(signal.SIGALRM, signal.default_int_handler)
random.seed(0)
env = PoolEnv("CartPole-v1", 3000, seed=0, num_threads=2, categorical_action_encoding=True)
root = env.reset()
counts, within = {"sends": 0, "receives": 0}, {"sends": 5e-4, "receives": 4e-3}

def disturbed(kind, act):
    "Whether the call has returned; its results are in `got` then."
    done, errors = [], []
    try:
        signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-5, within[kind]))
        try:
            done.append(act())
        except RuntimeError as error:
            errors.append(error)
        signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        counts[kind] += not done
    signal.setitimer(signal.ITIMER_REAL, 0)
    for error in errors:
        raise error
    return done

for number in range(300):
    rows = root.clone().set("mark", torch.full((3000,), number))
    rows["action"] = torch.full((3000,), number % 2)
    disturbed("sends", lambda: env.async_step_and_maybe_reset_send(rows))
    try:
        got = disturbed("receives", lambda: env.async_step_and_maybe_reset_recv(3000, timeout=20))
        if not got:
            got = [env.async_step_and_maybe_reset_recv(3000, timeout=20)]
    except RuntimeError as error:
        assert "only 0 are outstanding" in str(error), error  # it was not sent
        continue
    data, root = got[0]
    assert data["mark"].unique().tolist() == [number], number
    assert data["action"].unique().tolist() == [number % 2], number
    assert torch.equal(data["env_index"], torch.arange(3000))
    root = root.exclude("env_index", "mark")
assert min(counts.values()) >= 3, counts
env.close()
print(counts, "all")
"""
    assert run(body).endswith("all\n")
