"""What a program defines is found by its name where its envs live, which may cache, copy and send it."""

import ast
from functools import cache

import pytest
from cases import cases
from launched import run

CASES = """
import collections, copy, dataclasses, enum, functools, pickle, typing
import multiprocessing as mp

@functools.lru_cache(maxsize=None)
def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)

class Missing:
    def __reduce__(self):
        return "MISSING"

MISSING = Missing()
Pair = collections.namedtuple("Pair", "a b")

class Colour(enum.Enum):
    RED = 1

@enum.global_enum
class Flag(enum.IntFlag):
    UP = 1

@dataclasses.dataclass
class Point:
    x: "int"
    fields: typing.ClassVar[int] = 3

@dataclasses.dataclass(frozen=True, slots=True)
class Slotted:
    x: int

class Outer:
    class Inner:
        pass

class Env:
    counted = 0

    def __init__(self):
        self.level = 3

    @functools.lru_cache(maxsize=4)
    def space(self, agent):
        Env.counted += 1
        return (self.level, agent)

    @staticmethod
    @functools.cache
    def table(n):
        return [n]

    @functools.cached_property
    def slow(self):
        return object()

    def __eq__(self, other):
        return type(self) is type(other) and self.level == other.level

    __hash__ = object.__hash__

def again(value):
    return pickle.loads(pickle.dumps(value))

def sent(value):
    queue = mp.SimpleQueue()
    queue.put(value)
    return queue.get()

def local_cache():
    @functools.lru_cache
    def inner(x):
        return x + 1
    return inner

inner = local_cache()

def cached_space():
    env = Env()
    return env.space("a") is env.space("a"), env.space.cache_parameters()["maxsize"]

def lazy():
    env = Env()
    return env.slow is env.slow

cases = {
    "a cached function": fibonacci,
    "that calls itself": lambda n=0: fibonacci(50),
    "its parameters": lambda: fibonacci.cache_parameters(),
    "a partial of it": functools.partial(fibonacci, 10),
    "a cached local function": lambda: inner(1),
    "a cached method": cached_space,
    "of a class as what makes envs": lambda: Env().table(3),
    "a cached property": lazy,
    "an object that pickles itself": lambda: again(Env()),
    "its cached method": lambda: again(Env.space) is Env.space,
    "a copy": lambda: copy.deepcopy(Env()),
    "an object through a queue": lambda: sent(Env()),
    "a function by name": lambda: again(local_cache) is local_cache and again(fibonacci) is fibonacci,
    "a class by name": lambda: again(Env) is Env,
    "a nested class": lambda: type(again(Outer.Inner())) is Outer.Inner,
    "an enum": lambda: again(Colour.RED) is Colour.RED and Colour(1) is Colour.RED,
    "a flag": lambda: again(Flag.UP) is Flag.UP,
    "a named tuple": lambda: again(Pair(1, 2)),
    "a dataclass": lambda: (dataclasses.asdict(again(Point(1))), typing.get_type_hints(Point)["x"] is int),
    "a frozen one": lambda: again(Slotted(4)).x,
    "one of a kind": lambda: again(MISSING) is MISSING,
    "a local class": type("Local", (), {"seen": 3})().__class__.seen.__add__,
}
"""
PROGRAM = (
    CASES
    + """
from torchrl_pool._processes.launching import Launcher
from worker_bodies import answering

def outcome(make, *arguments):
    try:
        return make(*arguments)
    except Exception as error:
        return repr(error)

arguments = {"a cached function": (7,), "a local class": (1,)}
launcher = Launcher([*cases.values(), outcome])
channel = answering(launcher).channel
for i, (name, case) in enumerate(cases.items()):
    channel.send(f"factories[-1](factories[{i}], *{arguments.get(name, ())})")
    there, here = channel.recv(), case(*arguments.get(name, ()))
    print(repr((name, there == here, repr(there)[:300])))
launcher.close()
"""
)
NAMES = [line.strip().split('"')[1] for line in CASES.partition("cases = {")[2].splitlines() if ":" in line]


@cache
def outcomes():
    ended = run(PROGRAM)
    assert ended.stderr == ""
    return {
        name: (is_same, shown) for name, is_same, shown in map(ast.literal_eval, ended.stdout.splitlines())
    }


@pytest.mark.parametrize("name", cases(default=["a cached function", "a copy", "an enum"], also=NAMES))
def test_what_main_defines_does_there_what_it_does_here(name):
    is_same, shown = outcomes()[name]
    assert is_same, shown


def test_what_is_not_found_by_its_name_says_where_it_belongs():
    ended = run(
        """
        import pickle, threading
        from torchrl_pool._processes.launching import Launcher
        from worker_bodies import answering

        class Elsewhere:
            pass

        lock = threading.Lock()
        data = pickle.dumps(Elsewhere())
        launcher = Launcher(lambda: pickle.loads(data))
        channel = answering(launcher).channel
        channel.send("factories()")
        try:
            channel.recv()
        except EOFError:
            pass
        launcher.close()
        import functools

        @functools.singledispatch
        def kind(value):
            return "something"

        for make in (lambda: lock.acquire(), lambda: kind(1)):
            try:
                Launcher(make)
            except TypeError as error:
                print(error)
        """
    )
    assert "Can't get attribute 'Elsewhere' on <module '__main__' of a worker process" in ended.stderr
    assert "Worker processes do not run your script: move what is missing to a module" in ended.stderr
    assert "cannot be pickled: cannot pickle '_thread.lock' object" in ended.stdout
    assert (
        ended.stdout.count("Worker processes do not run your script: move it to a module and import it") == 2
    )


def test_what_a_worker_knows_by_name_is_sent_by_name():
    """So what main gives to an env later is of the classes, and is the very singleton, that the env knows."""
    ended = run(
        """
        import gymnasium, numpy as np
        from torchrl_pool import PoolEnv

        class Missing:
            def __reduce__(self):
                return "MISSING"

        MISSING = Missing()
        calls = 0

        class Env(gymnasium.Env):
            observation_space = gymnasium.spaces.Box(-1, 1, (1,))
            action_space = gymnasium.spaces.Discrete(2)
            value = MISSING

            def reset(self, *, seed=None, options=None):
                global calls
                calls += 1
                return np.zeros(1, np.float32), {}

            def is_missing(self, value):
                return self.value is value, type(value) is Missing

            def of(self, value):
                return value

        pool = PoolEnv(Env, 2, num_workers=1)
        pool.reset()
        print(pool.call("is_missing", MISSING))
        print(pool.get_attr("value")[0] is MISSING, type(pool.call("of", Env())[0]) is Env)
        print(pool.call("of", lambda: calls)[0]())
        pool.close()
        """
    )
    assert ended.stdout.splitlines() == ["[(True, True), (True, True)]", "True True", "0"], ended.stderr


def test_ids_that_a_program_registers_are_known_where_its_envs_are_made():
    """By class, by name in main, by a module's name; those that cannot be pickled are told of, as before."""
    ended = run(
        """
        import threading
        import gymnasium, numpy as np
        from torchrl_pool import EnvFailure, PoolEnv
        from torchrl_pool.gymnasium import PoolVectorEnv

        class Env(gymnasium.Env):
            observation_space = gymnasium.spaces.Box(-9, 9, (1,))
            action_space = gymnasium.spaces.Discrete(2)

            def __init__(self, size=1, kind=None, render_mode=None):
                self.size = size

            def reset(self, *, seed=None, options=None):
                return np.full(1, self.size, np.float32), {}

        lock = threading.Lock()
        gymnasium.register("OfAClass-v0", Env, kwargs={"size": 2}, max_episode_steps=5)
        gymnasium.register("OfAName-v0", "__main__:Env", kwargs={"kind": Env})
        gymnasium.register("Locked-v0", lambda **kwargs: lock and Env())
        gymnasium.register("Gone-v0", "no_such_module:Env")
        gymnasium.register("OfAModule-v0", "gymnasium.envs.classic_control.cartpole:CartPoleEnv")

        def nested():
            return gymnasium.wrappers.TransformReward(gymnasium.make("OfAClass-v0", size=3), abs)

        for task in ("gymnasium:OfAClass-v0", "gymnasium:OfAName-v0", nested):
            pool = PoolEnv(task, 2, num_workers=2)
            print(pool.reset()["observation"].flatten().tolist(), pool.get_attr("spec")[0].max_episode_steps)
            pool.close()
        for task in ("gymnasium:Locked-v0", lambda: gymnasium.make("Locked-v0"), "gymnasium:Nothing-v0"):
            try:
                PoolEnv(task, 1, num_workers=1)
            except EnvFailure as failure:
                print("import it within the function that makes the env" in str(failure))
        """
    )
    assert ended.stdout.splitlines() == [
        "[2.0, 2.0] 5", "[1.0, 1.0] None", "[3.0, 3.0] 5", "True", "True", "True",
    ], ended.stderr  # fmt: skip
    assert "Overriding" not in ended.stderr


def test_what_a_program_makes_of_gymnasiums_ids_holds_where_its_envs_are_made():
    """And a large registration travels with pools alone that name it."""
    ended = run(
        """
        import gymnasium, numpy as np
        from torchrl_pool import PoolEnv
        from torchrl_pool._processes.pickling import dump

        class Env(gymnasium.Env):
            observation_space = gymnasium.spaces.Box(-9, 9, (1,))
            action_space = gymnasium.spaces.Discrete(2)

            def __init__(self, data=b"", render_mode=None):
                self.data = data

            def reset(self, *, seed=None, options=None):
                return np.ones(1, np.float32), {}

        def make():
            return gymnasium.make("CartPole-v1")

        def small():
            return gymnasium.make("Acrobot-v1")

        gymnasium.registry["CartPole-v1"].max_episode_steps = 7
        gymnasium.register("Large-v0", Env, kwargs={"data": bytes(1 << 20)})
        gymnasium.register("Mine-v0", "gymnasium.envs.classic_control.cartpole:CartPoleEnv")
        gymnasium.registry["Acrobot-v1"].entry_point = Env
        for task in (make, "gymnasium:Acrobot-v1", small, "gymnasium:Large-v0", "gymnasium:Mine-v0"):
            pool = PoolEnv(task, 1, num_workers=1)
            print(pool.get_attr("spec")[0].max_episode_steps, tuple(pool.reset()["observation"].shape))
            pool.close()
        print(len(dump(make).data) >> 20, len(dump("Large-v0").data) >> 20)
        """
    )
    assert ended.stdout.splitlines() == [
        "7 (1, 4)", "500 (1, 1)", "500 (1, 1)", "None (1, 1)", "None (1, 4)", "0 1",
    ], ended.stderr  # fmt: skip
