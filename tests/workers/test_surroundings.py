"""Surroundings of a program, and odd things that its envs do: workers start, and failures say what it is."""

import os
import signal
import sys
import threading
import types
from functools import partial

import gymnasium
import pytest
from cases import cases
from processes import run, run_program

from torchrl_pool import EnvFailure, PoolEnv

STARTS = """
env = PoolEnv("gymnasium:CartPole-v1", 2, num_workers=2)
env.rollout(3)
env.close()
"""


def test_a_path_longer_than_an_argument():
    folders = 'sys.path += [f"/nowhere/" + "x" * 120 + f"/external/package_{i}" for i in range(1200)]\n'
    assert run(folders + STARTS) == ""


@pytest.mark.parametrize("executable", ["'/usr/bin/env'", "''"])
def test_an_executable_that_is_no_python(executable):
    """As where Python is embedded in another program."""
    change = f"""
from multiprocessing import spawn
sys.executable = {executable}
spawn.set_executable(sys.executable)
"""
    assert run(change + STARTS) == ""


def test_no_python_at_all():
    body = f"""
from multiprocessing import spawn
sys.executable = ""
spawn.set_executable("")
sys.prefix = sys.exec_prefix = sys.base_prefix = "/nowhere"
make = lambda: PoolEnv("gymnasium:CartPole-v1", 2, num_workers=2)
refused(RuntimeError, "call multiprocessing.set_executable", make)
spawn.set_executable({sys.executable!r})
{STARTS}
"""
    assert run(body) == ""


def test_a_user_without_a_home():
    body = """
os.environ.pop("XDG_CACHE_HOME", None)
os.environ.pop("HOME", None)
import pathlib
def home():
    raise RuntimeError("Could not determine home directory.")
pathlib.Path.home = home
refused(ValueError, "did you mean 'CartPole-v1'", PoolEnv, "CartPole-v9", 2)
from torchrl_pool import build_plugin
from torchrl_pool._plugins.building import BuildError
import tempfile
with tempfile.NamedTemporaryFile(suffix=".cc") as source:
    refused(BuildError, "set XDG_CACHE_HOME to a folder", build_plugin, source.name)
"""
    assert run(body) == ""


CLOSED = """
import os, sys
for fd in map(int, sys.argv[2:]):
    os.close(fd)
import gymnasium
from torchrl_pool import PoolEnv
class Talks(gymnasium.Wrapper):
    def step(self, action):
        print("hello")
        return self.env.step(action)
env = PoolEnv(lambda: Talks(gymnasium.make("CartPole-v1")), 2, num_workers=2, info_keys=["step_count"])
for _ in range(20):
    env.rollout(3)
env.close()
with open(sys.argv[1], "w") as file:
    file.write("done")
"""


@pytest.mark.parametrize("closed", cases(default=[(0,), (2,)], also=[(1,), (0, 1, 2)]), ids=str)
def test_standard_streams_that_are_closed(tmp_path, closed):
    run_program(CLOSED, tmp_path / "mark", *closed)
    assert (tmp_path / "mark").read_text() == "done"


@pytest.mark.parametrize(
    "number", cases([signal.SIGKILL, signal.SIGRTMIN + 6], also=[signal.SIGUSR1, signal.SIGRTMAX - 1])
)
@pytest.mark.parametrize("respawn", cases([False, True]))
def test_workers_that_any_signal_has_ended(number, respawn):
    env = PoolEnv("gymnasium:CartPole-v1", 2, num_workers=2, respawn=respawn)
    root = env.rand_action(env.reset())
    os.kill(env._source.workers._workers[0].pid, number)
    if respawn:
        assert env.step(root)["next", "respawned"].any()
    else:
        with pytest.raises(EnvFailure, match=f"was killed by signal {int(number)}"):
            env.step(root)
    env.reset()
    os.kill(env._source.workers._workers[0].pid, number)
    with pytest.raises(EnvFailure, match=f"was killed by signal {int(number)}"):
        env.call("has_wrapper_attr", "gravity")
    env.close()


def unprintable(kind):
    class Odd(Exception):
        pass

    class Worse(Exception):
        def __str__(self):
            raise SystemExit(3)

    match kind:
        case "text for a number":
            return SyntaxError("bad value", ("config.yaml", 3, "7", "learning_rate: x"))
        case "notes that are none":
            error = Odd("odd")
            error.__notes__ = 42
            return error
        case "a str that raises":
            return Worse()
        case "a module that is none":
            Odd.__module__ = 7
            return Odd("odd")


class Raises(gymnasium.Wrapper):
    def __init__(self, kind):
        super().__init__(gymnasium.make("CartPole-v1"))
        self.kind = kind

    def step(self, action):
        raise unprintable(self.kind)


@pytest.mark.parametrize("num_workers", [0, 1])
@pytest.mark.parametrize(
    "kind",
    cases(
        default=["text for a number", "a str that raises"],
        also=["notes that are none", "a module that is none"],
    ),
)
def test_exceptions_that_cannot_be_formatted_are_their_envs_failures(kind, num_workers):
    makes = [lambda: gymnasium.make("CartPole-v1"), lambda: Raises(kind)]
    env = PoolEnv(makes, 2, num_workers=num_workers)
    with pytest.raises(EnvFailure) as caught:
        env.step(env.rand_action(env.reset()))
    assert caught.value.env_index == [1]
    env.close()


class TakesAll(gymnasium.Wrapper):
    """Opens files until there are no more descriptors."""

    taken = ()

    def take(self):
        self.taken = []
        try:
            while True:
                self.taken.append(os.open(os.devnull, os.O_RDONLY))
        except OSError:
            return len(self.taken)

    def long(self):
        return "x" * 100_000

    def hear(self, text):
        return len(text)


def test_a_worker_out_of_descriptors_goes_on_to_answer():
    env = PoolEnv(lambda: TakesAll(gymnasium.make("CartPole-v1")), 1, num_workers=1)
    root = env.reset()
    assert env.call("take")[0] > 100
    assert env.call("hear", "x" * 100_000) == [100_000]
    assert env.call("long") == ["x" * 100_000]
    env.step(env.rand_action(root))
    env.close()


def test_what_this_process_has_and_a_worker_lacks_is_said():
    def make():
        import numpy

        numpy.of_this_program()
        return gymnasium.make("CartPole-v1")

    import numpy

    numpy.of_this_program = lambda: None
    try:
        with pytest.raises(EnvFailure, match=r"workers import modules anew, .* or pass num_workers=0"):
            PoolEnv(make, 2, num_workers=1)
        PoolEnv(make, 2, num_workers=0).close()
    finally:
        del numpy.of_this_program
    with pytest.raises(EnvFailure) as caught:  # here it would fail, too
        PoolEnv(make, 2, num_workers=1)
    assert "import modules anew" not in str(caught.value)


def test_a_program_that_starts_workers_with_all_signals_blocked():
    """As threads for background work often have."""
    body = """
def play():
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    env = PoolEnv("gymnasium:CartPole-v1", 2, num_workers=2)
    for _ in range(2):
        root = env.reset()
        for worker in env._source.workers._workers:
            worker.kill()
        refused(EnvFailure, "was killed by signal 9", lambda: env.step(env.rand_action(root)))
    env.close()

thread = threading.Thread(target=play)
thread.start()
thread.join()  # threading prints what it raises
"""
    assert run(body) == ""


def test_two_threads_that_ask_how_a_worker_ended():
    env = PoolEnv(lambda: gymnasium.make("CartPole-v1"), 1, num_workers=1)
    for _ in range(20):
        env.reset()
        (worker,) = env._source.workers._workers
        said, begin = [], threading.Barrier(2)

        def ask(worker=worker, said=said, begin=begin):
            begin.wait()
            worker.wait(10)
            said.append(worker.how_it_ended())

        threads = [threading.Thread(target=ask) for _ in range(2)]
        for thread in threads:
            thread.start()
        worker.kill()
        for thread in threads:
            thread.join()
        assert said == ["was killed by signal 9 (SIGKILL)"] * 2
    env.close()


class Interrupted(gymnasium.Wrapper):
    """The closing of the second one is interrupted."""

    closed: list[int] = []  # noqa: RUF012  of all of them

    def __init__(self, env, number):
        super().__init__(env)
        self.number = number

    def close(self):
        self.closed.append(self.number)
        if self.number == 1:
            raise KeyboardInterrupt


def test_an_interrupted_close_closes_all_envs():
    Interrupted.closed.clear()
    makes = [partial(Interrupted, gymnasium.make("CartPole-v1"), number) for number in range(4)]
    env = PoolEnv(makes, 4, num_workers=0)
    env.reset()
    with pytest.raises(KeyboardInterrupt):
        env.close()
    assert Interrupted.closed == [0, 1, 2, 3]
    assert env.is_closed


class Lazy(types.ModuleType):
    """A module that loads parts of itself when they are asked for, which fails."""

    def __getattr__(self, name):
        raise ImportError(f"{name} is not installed")


def test_a_module_that_cannot_be_asked_hides_no_failure(monkeypatch):
    monkeypatch.setitem(sys.modules, "lazy_module", Lazy("lazy_module"))

    class Asks(gymnasium.Wrapper):
        def step(self, action):
            raise AttributeError("module 'lazy_module' has no attribute 'part'")

    env = PoolEnv(lambda: Asks(gymnasium.make("CartPole-v1")), 1, num_workers=0)
    with pytest.raises(EnvFailure, match="no attribute 'part'"):
        env.step(env.rand_action(env.reset()))
