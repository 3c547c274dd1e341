"""What is refused, as tables of a call, its exception and its words; afterwards a pool still works."""

import re
import shutil
import textwrap
from functools import partial
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch
from building import build_plugin, load_fault_plugin
from cases import cases
from processes import PRELUDE, printed
from tensordict import TensorDict

from torchrl_pool import PoolEnv, load_plugin
from torchrl_pool.stable_baselines3 import PoolVecEnv

N = 3
NO_DTYPE = "obs_dtype: expected torch.float32, torch.float64 or None, got "


@pytest.fixture(scope="module", autouse=True)
def _plugins():
    load_fault_plugin()
    load_plugin(build_plugin("starts"))


def pendulum(**options):
    return partial(PoolEnv, "Pendulum-v1", N, **options)


def starts(**options):
    return partial(PoolEnv, "Starts-v0", 2, **options)


def cartpole():
    return gymnasium.make("CartPole-v1")


CONSTRUCTORS = [
    (partial(PoolEnv, "zzzz", 2), ValueError, "unknown task 'zzzz'"),
    (partial(PoolEnv, 7, 2), TypeError, "task"),
    (
        partial(PoolEnv, "Cartpole-v1", 2),
        ValueError,
        "unknown task 'Cartpole-v1'; did you mean 'CartPole-v1'",
    ),
    (partial(PoolEnv, "CartPole-v1", 0), ValueError, "num_envs: expected at least 1, got 0"),
    (partial(PoolEnv, "CartPole-v1", 2.0), TypeError, "num_envs: expected an int, got 2.0"),
    (partial(PoolEnv, ["CartPole-v1"], 2), ValueError, "expected one id or 2 of them, got 1"),
    (
        partial(PoolEnv, ["CartPole-v1", "Acrobot-v1"], 2),
        ValueError,
        "'CartPole-v1' and 'Acrobot-v1'",
    ),
    *(
        (make(obs_dtype=dtype), ValueError, NO_DTYPE)
        for dtype in ("double-barrelled", "float16", np.int64, 3, torch.int32)
        for make in (pendulum, partial(partial, PoolVecEnv, "Pendulum-v1", 1))
    ),
    (pendulum(env_options=[{}]), ValueError, "expected one mapping per env (3), got 1"),
    (
        pendulum(thread_affinity=[4096]),
        ValueError,
        "thread_affinity: expected CPUs that this process may use, of",
    ),
    (pendulum(seed=torch.ones(2).long()), TypeError, "seed: expected an int, got tensor([1, 1])"),
    (pendulum(seed=-1), ValueError, "seed: expected at least 0, got -1"),
    (pendulum(seed=1.5), TypeError, "seed: expected an int, got 1.5"),
    (pendulum(gravity=1.0), TypeError, "has no option 'gravity'; it has: g, x_init, y_init"),
    (pendulum(x_inti=1.0), TypeError, "did you mean 'x_init'?"),
    (pendulum(g="heavy"), TypeError, "option 'g': expected float, got 'heavy'"),
    (pendulum(g=True), TypeError, "option 'g': expected float, got True"),
    (pendulum(g=float("nan")), TypeError, "option 'g': expected float, got nan"),
    (pendulum(num_threads=0), ValueError, "num_threads: expected at least 1, got 0"),
    (pendulum(max_episode_steps=0), ValueError, "max_episode_steps: expected at least 1"),
    (pendulum(info_keys=("lives",)), ValueError, "no info key 'lives'; it has: step_count, is_init"),
    (pendulum(info_keys="is_init"), TypeError, "expected a sequence of strings"),
    (
        pendulum(check_actions="none"),
        ValueError,
        "check_actions: expected 'finite' or 'strict', got 'none'",
    ),
    (
        partial(PoolEnv, "Acrobot-v1", 1, book_or_nips="paper"),
        ValueError,
        "expected one of 'book', 'nips', got 'paper'",
    ),
    (partial(PoolEnv, "Acrobot-v1", 1, dt=-1), ValueError, "expected a number in [0, inf], got -1"),
    (partial(PoolEnv, "CartPole-v1", 1, low=1, high=0), ValueError, "low (1.0"),
    (starts(marks={"left": [1, -1]}), ValueError, "expected a number in [0, inf]"),
    (starts(marks={"left": float("nan")}), ValueError, "expected a number in [0, inf]"),
    (starts(lanes=300), ValueError, "expected a number in [0, 255], got 300"),
    (starts(seen="a\0b"), ValueError, "expected text without zero bytes"),
    (starts(seen="next/position"), ValueError, "is named as an entry of TorchRL's own"),
    (starts(seen="_reset"), ValueError, "is named as an entry of TorchRL's own"),
    (starts(seen="a//b"), ValueError, "'a//b' has an empty part"),
    (starts(seen=""), ValueError, "'' has an empty part"),
    (starts(seen="reward/x"), ValueError, "'reward/x' lies below the entry 'reward'"),
    (
        starts(seen="step_count", info_keys=["step_count"]),
        ValueError,
        "'step_count' is the name of two entries",
    ),
    (
        partial(PoolEnv, "CartPole-v1", 2, render_mode="rgb_array"),
        TypeError,
        "no option 'render_mode'; none is needed: render()",
    ),
    (
        partial(PoolEnv, cartpole, 2, render_mode="rgb_array"),
        TypeError,
        "pass functools.partial(make_env, render_mode=...) as task",
    ),
]


@pytest.mark.parametrize(("make", "error", "message"), cases(CONSTRUCTORS))
def test_constructors(make, error, message):
    with pytest.raises(error, match=re.escape(message)):
        make()


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without CUDA")
def test_pinned_memory_without_cuda():
    with pytest.raises(ValueError, match="pin_memory=True needs CUDA"):
        PoolEnv("CartPole-v1", 1, pin_memory=True)


def test_options_that_are_tensors_have_all_their_digits():
    homes = torch.linspace(9.8, 9.8001, 3, dtype=torch.float64)
    env = PoolEnv("Starts-v0", 3, env_options=[{"home": home} for home in homes])
    assert env.reset()["observation"][:, 0].tolist() == homes.tolist()
    root = env.reset(options=[{"start": home - 1} for home in homes])
    assert root["observation"][:, 0].tolist() == (homes - 1).tolist()


# ---- calls


def one_hot(*choices, n=2):
    return torch.nn.functional.one_hot(torch.tensor(choices), n)


def acting(action):
    """Steps with an action that CartPole does not have."""
    return [
        lambda env, root: env.step(root.set("action", action)),
        lambda env, root: env.step_and_maybe_reset(root.set("action", action)),
    ]


def masked(name, mask):
    return lambda env, root: getattr(env, name)(root.set(name, mask))


WIDE = torch.ones(N, 2, dtype=torch.bool)
NO_VECTOR = "'action' of env 0: expected a one-hot vector of 2 entries, got "
ENCODING = "expected one-hot vectors of shape [3, 2], got "
CALLS = [
    *(
        (call, error, message)
        for action, error, message in [
            (one_hot(0, 1, 0) * 0, ValueError, NO_VECTOR + "[0, 0]"),
            (-one_hot(0, 1, 0), ValueError, NO_VECTOR + "[-1, 0]"),
            (one_hot(0, 1, 0) * 2, ValueError, NO_VECTOR + "[2, 0]"),
            (torch.zeros(N, 3).long(), ValueError, ENCODING + "[3, 3]"),
            (torch.zeros(N).long(), ValueError, ENCODING + "[3]; categorical_action_encoding=True"),
            (one_hot(0, 1, 0).float(), TypeError, "expected dtype torch.int64, got torch.float32"),
            (one_hot(0, 1, 0) + 0j, TypeError, "expected dtype torch.int64, got torch.complex64"),
        ]
        for call in acting(action)
    ),
    (lambda env, root: env.step(root.exclude("action")), KeyError, "expected an entry 'action'"),
    (masked("_reset", WIDE), ValueError, "'_reset': expected a mask"),
    (masked("_step", WIDE), ValueError, "'_step': expected a mask"),
    (masked("_reset", torch.ones(N)), TypeError, "'_reset': expected a mask"),
    (masked("_step", torch.ones(N)), TypeError, "'_step': expected a mask"),
    (
        lambda env, root: env.reset(root.set("_reset", TensorDict({"a": WIDE}, [N]))),
        TypeError,
        "'_reset': expected a mask",
    ),
    (lambda env, root: env.reset(seed=[1, 2]), ValueError, "expected 3 seeds, got 2"),
    (lambda env, root: env.reset(seed=-5), ValueError, "seed: expected at least 0, got -5"),
    (
        lambda env, root: env.reset(return_info=True),
        TypeError,
        "takes 'seed', 'options' and 'list_of_kwargs', got return_info",
    ),
    (lambda env, root: env.reset(options={"bound": 0.0}), TypeError, "no reset option 'bound'"),
    (lambda env, root: env.get_state(3), IndexError, "env_index: expected 0 to 2"),
    (lambda env, root: env.get_state(-1), IndexError, "env_index: expected 0 to 2"),
    (lambda env, root: env.render([]), ValueError, "at least one env"),
    (lambda env, root: env.set_state([env.get_state(0)[0]]), ValueError, "expected 3 states, got 1"),
    (lambda env, root: env.set_state(["state"] * N), TypeError, "expected bytes, got str"),
    (
        lambda env, root: env.set_state(b"x" * 200, 0),
        ValueError,
        "no state that get_state returned",
    ),
    (lambda env, root: env.set_state(env.get_state(0)[0] + b"x", 0), ValueError, "too long"),
    (
        lambda env, root: env.set_state(other_state(), 0),
        ValueError,
        "this state is of task 'Pendulum-v1', env 0 runs 'CartPole-v1'",
    ),
]


def other_state():
    env = PoolEnv("Pendulum-v1", 1)
    env.reset()
    return env.get_state()[0]


@pytest.mark.parametrize(("call", "error", "message"), cases(CALLS))
def test_calls(call, error, message):
    """Nothing has moved, and a proper step still works."""
    env, twin = (PoolEnv("CartPole-v1", N, seed=0) for _ in range(2))
    root = env.rand_action(env.reset())
    with pytest.raises(error, match=re.escape(message)):
        call(env, root.clone())
    expected = twin.step(twin.reset().set("action", root["action"]))["next"]
    assert (env.step(root)["next"] == expected).all()


def test_numbers_where_one_hot_vectors_are_expected():
    env = PoolEnv("CartPole-v1", 2, categorical_action_encoding=True)
    message = r"expected numbers of the choices, of shape \[2\], got \[2, 2\]; .*_encoding=False"
    with pytest.raises(ValueError, match=message):
        env.step(env.reset().set("action", torch.zeros(2, 2, dtype=torch.int64)))


@pytest.mark.parametrize("dtype", cases(default=[torch.int8, torch.int32], also=[torch.bool, torch.uint8]))
def test_choices_of_another_dtype(dtype):
    """Modules differ in what they make of one-hot vectors."""
    env, twin = (PoolEnv("CartPole-v1", N, seed=0) for _ in range(2))
    action = one_hot(0, 1, 0)
    data, expected = (
        one.step(one.reset().set("action", chosen))
        for one, chosen in ((env, action.to(dtype)), (twin, action))
    )
    assert data["action"].dtype is dtype
    assert torch.equal(data["next", "observation"], expected["next", "observation"])


def test_of_several_ones_the_first_counts():
    """As in torch's argmax, with which TorchRL decodes them."""
    env, twin = (PoolEnv("CartPole-v1", N, seed=0) for _ in range(2))
    data = env.step(env.reset().set("action", torch.ones(N, 2, dtype=torch.int64)))
    expected = twin.step(twin.reset().set("action", one_hot(*[0] * N)))
    assert torch.equal(data["next", "observation"], expected["next", "observation"])


def test_bound_is_the_envs_own():
    env = PoolEnv("Fault-v0", 2, env_options=[{"gain": 0.4}, {"gain": 2.0}], check_actions="strict")
    root = env.reset()
    env.step(root.set("action", torch.tensor([[0.4, -0.4], [2.0, -2.0]])))  # float32 0.4 exceeds the double
    with pytest.raises(ValueError, match=r"'action' of env 0, element 1: expected a number in \[-0.4, 0.4\]"):
        env.step(root.set("action", torch.tensor([[0.4, 0.5], [2.0, 0.5]])))


def test_step_after_a_partial_first_reset():
    env = PoolEnv("CartPole-v1", 2)
    mask = env.full_done_spec.zero().select("done").rename_key_("done", "_reset")
    mask["_reset"][0] = True
    root = env.rand_action(env.reset(mask))
    with pytest.raises(RuntimeError, match=r"env 1 has not been reset: call reset\(\)"):
        env.step(root)
    env.rollout(2)


# ---- plugins and states


@pytest.mark.parametrize("share", cases([0.05, 0.5]))
def test_plugin_that_is_cut_off(share, tmp_path):
    """The system would map what is not there, and end the process where it is read."""
    whole = Path(build_plugin("starts")).read_bytes()
    part = tmp_path / "part.so"
    part.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(ValueError, match="is cut off"):
        load_plugin(part)


def test_plugin_that_was_built_again_under_its_name(tmp_path):
    """What a process has loaded stays: it would be the old build that runs."""
    library = tmp_path / "fault.so"
    shutil.copy(build_plugin("fault"), library)
    program = """
        library = sys.argv[1]
        assert load_plugin(library)
        with open(library, "rb") as file:
            again = file.read() + bytes(8)
        os.unlink(library)
        assert load_plugin(library)
        with open(library, "wb") as file:
            file.write(again)
        refused(ValueError, "is another build than the one", load_plugin, library)
    """
    printed(PRELUDE + textwrap.dedent(program), library)


def test_states_that_are_cut_off():
    env = PoolEnv("Pendulum-v1", N, seed=0)
    env.reset()
    (state,) = env.get_state(0)
    for size in range(len(state)):
        with pytest.raises(ValueError, match=r"truncated|too short"):
            env.set_state(state[:size], 0)
    env.set_state(state, 0)
    env.rollout(2)


def test_task_without_render_or_state():
    env = PoolEnv("Fault-v0", 1)
    env.reset()
    with pytest.raises(NotImplementedError, match="task 'Fault-v0' cannot be rendered"):
        env.render()
    with pytest.raises(NotImplementedError, match="task 'Fault-v0' cannot save its state"):
        env.get_state()
