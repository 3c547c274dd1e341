"""What bad input gets: the right exception, what was expected and what came, and a pool that still works."""

import re
import shutil
import textwrap
from pathlib import Path

import pytest
import torch
from building import build_plugin, load_fault_plugin
from cases import cases
from processes import PRELUDE, printed

from torchrl_pool import PoolEnv, load_plugin

N = 3


@pytest.fixture
def cartpole():
    env = PoolEnv("CartPole-v1", N, seed=0)
    yield env
    env.close()


@pytest.fixture
def pendulum():
    env = PoolEnv("Pendulum-v1", N, seed=0)
    yield env
    env.close()


@pytest.fixture(scope="module", autouse=True)
def _fault_plugin():
    load_fault_plugin()


def one_hot(*choices, n=2):
    return torch.nn.functional.one_hot(torch.tensor(choices), n)


def assert_refused(env, action, error, message):
    """The step raises, no simulator has moved, and a proper step still works."""
    twin = PoolEnv(env.task, env.num_envs, seed=0)
    root, twin_root = env.reset(), twin.reset()
    with pytest.raises(error, match=message):
        env.step(root.clone().set("action", action))
    with pytest.raises(error, match=message):
        env.step_and_maybe_reset(root.clone().set("action", action))
    proper = env.rand_action()["action"]
    got = env.step(root.set("action", proper))["next"]
    expected = twin.step(twin_root.set("action", proper))["next"]
    assert (got == expected).all()


# ---- construction


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    cases(
        default=[(("zzzz", 2), ValueError, "unknown task 'zzzz'"), ((7, 2), TypeError, "task")],
        also=[
            (("Cartpole-v1", 2), ValueError, "unknown task 'Cartpole-v1'; did you mean 'CartPole-v1'"),
            (("CartPole-v1", 0), ValueError, "num_envs: expected at least 1, got 0"),
            (("CartPole-v1", 2.0), TypeError, "num_envs: expected an int, got 2.0"),
            ((["CartPole-v1"], 2), ValueError, "expected one id or 2 of them, got 1"),
            ((["CartPole-v1", "Acrobot-v1"], 2), ValueError, "'CartPole-v1' and 'Acrobot-v1'"),
        ],
    ),
)
def test_bad_task_or_count(arguments, error, message):
    with pytest.raises(error, match=re.escape(message)):
        PoolEnv(*arguments)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    cases(
        default=[
            (
                {"obs_dtype": torch.int32},
                ValueError,
                "obs_dtype: expected torch.float32, torch.float64 or None",
            ),
            ({"env_options": [{}]}, ValueError, "expected one mapping per env (3), got 1"),
            (
                {"thread_affinity": [4096]},
                ValueError,
                "thread_affinity: expected CPUs that this process may use, of",
            ),
            ({"seed": torch.ones(2).long()}, TypeError, "seed: expected an int, got tensor([1, 1])"),
        ],
        also=[
            ({"gravity": 1.0}, TypeError, "has no option 'gravity'; it has: g, x_init, y_init"),
            ({"x_inti": 1.0}, TypeError, "did you mean 'x_init'?"),
            ({"g": "heavy"}, TypeError, "option 'g': expected float, got 'heavy'"),
            ({"g": True}, TypeError, "option 'g': expected float, got True"),
            ({"g": float("nan")}, TypeError, "option 'g': expected float, got nan"),
            ({"num_threads": 0}, ValueError, "num_threads: expected at least 1, got 0"),
            ({"max_episode_steps": 0}, ValueError, "max_episode_steps: expected at least 1"),
            ({"info_keys": ("lives",)}, ValueError, "no info key 'lives'; it has: step_count, is_init"),
            ({"info_keys": "is_init"}, TypeError, "expected a sequence of strings"),
            ({"seed": -1}, ValueError, "seed: expected at least 0, got -1"),
            ({"seed": 1.5}, TypeError, "seed: expected an int, got 1.5"),
        ],
    ),
)
def test_bad_argument(options, error, message):
    with pytest.raises(error, match=re.escape(message)):
        PoolEnv("Pendulum-v1", 3, **options)


def test_choices_and_ranges_of_options():
    with pytest.raises(ValueError, match=r"expected one of 'book', 'nips', got 'paper'"):
        PoolEnv("Acrobot-v1", 1, book_or_nips="paper")
    with pytest.raises(ValueError, match=r"expected a number in \[0, inf\], got -1"):
        PoolEnv("Acrobot-v1", 1, dt=-1)
    with pytest.raises(ValueError, match=r"low \(1.0+\) must not exceed high \(0.0+\)"):
        PoolEnv("CartPole-v1", 1, low=1, high=0)


@pytest.mark.parametrize(
    ("options", "message"),
    cases(
        default=[
            ({"marks": {"left": [1, -1]}}, "expected a number in [0, inf]"),
            ({"seen": "a\0b"}, "expected text without zero bytes"),
            ({"seen": "next/position"}, "is named as an entry of TorchRL's own"),
            ({"seen": "step_count", "info_keys": ["step_count"]}, "'step_count' is the name of two entries"),
        ],
        also=[
            ({"lanes": 300}, "expected a number in [0, 255], got 300"),
            ({"lanes": -1}, "expected a number in [0, 255], got -1"),
            ({"marks": {"left": float("nan")}}, "expected a number in [0, inf]"),
            ({"seen": "_reset"}, "is named as an entry of TorchRL's own"),
            ({"seen": "a//b"}, "'a//b' has an empty part"),
            ({"seen": ""}, "'' has an empty part"),
            ({"seen": "reward/x"}, "'reward/x' lies below the entry 'reward'"),
        ],
    ),
)
def test_options_and_names_that_plugins_have(options, message):
    load_plugin(build_plugin("starts"))
    with pytest.raises(ValueError, match=re.escape(message)):
        PoolEnv("Starts-v0", 2, **options)


def test_options_that_are_tensors_have_all_their_digits():
    load_plugin(build_plugin("starts"))
    homes = torch.linspace(9.8, 9.8001, 3, dtype=torch.float64)
    env = PoolEnv("Starts-v0", 3, env_options=[{"home": home} for home in homes])
    assert env.reset()["observation"][:, 0].tolist() == homes.tolist()
    root = env.reset(options=[{"start": home - 1} for home in homes])
    assert root["observation"][:, 0].tolist() == (homes - 1).tolist()


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without CUDA")
def test_pinned_memory_without_cuda():
    with pytest.raises(ValueError, match="pin_memory=True needs CUDA"):
        PoolEnv("CartPole-v1", 1, pin_memory=True)


# ---- actions


@pytest.mark.parametrize(
    ("action", "error", "message"),
    cases(
        default=[
            (
                one_hot(0, 1, 0) * 0,
                ValueError,
                r"env 0: expected a one-hot vector of 2 entries, got \[0, 0\]",
            ),
            (-one_hot(0, 1, 0), ValueError, r"expected a one-hot vector of 2 entries, got \[-1, 0\]"),
        ],
        also=[
            (
                torch.zeros(N, 3).long(),
                ValueError,
                r"'action': expected one-hot vectors of shape \[3, 2\], got \[3, 3\]",
            ),
            (
                torch.zeros(N, dtype=torch.int64),
                ValueError,
                r"expected one-hot vectors of shape \[3, 2\], got \[3\]",
            ),
            (one_hot(0, 1, 0).float(), TypeError, r"expected dtype torch.int64, got torch.float32"),
            (one_hot(0, 1, 0) + 0j, TypeError, r"expected dtype torch.int64, got torch.complex64"),
            (one_hot(0, 1, 0) * 2, ValueError, r"expected a one-hot vector of 2 entries, got \[2, 0\]"),
        ],
    ),
)
def test_bad_one_hot_action(cartpole, action, error, message):
    assert_refused(cartpole, action, error, message)


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


def test_missing_action(cartpole):
    root = cartpole.reset()
    with pytest.raises(KeyError, match="expected an entry 'action'"):
        cartpole.step(root)


def test_action_layouts_that_are_fine(pendulum):
    """Strided, expanded, differentiable and subclassed actions hold the same numbers."""
    root = pendulum.reset()
    twin = PoolEnv("Pendulum-v1", N, seed=0)
    expected = twin.step(twin.reset().set("action", torch.full((N, 1), 0.5)))["next"]
    wide = torch.full((N, 4), 0.5)
    for action in (
        wide[:, ::4],
        torch.tensor([[0.5]]).expand(N, 1),
        torch.full((N, 1), 0.5, requires_grad=True),
        torch.nn.Parameter(torch.full((N, 1), 0.5)),
    ):
        pendulum.set_seed(0)
        got = pendulum.step(pendulum.reset().set("action", action))["next"]
        assert (got == expected).all()
    assert root.batch_size == expected.batch_size


# ---- masks, seeds, order of calls


@pytest.mark.parametrize("name", ["_reset", "_step"])
@pytest.mark.parametrize(
    ("mask", "error"),
    cases([(torch.ones(N, 2, dtype=torch.bool), ValueError), (torch.ones(N), TypeError)]),
)
def test_bad_mask(cartpole, name, mask, error):
    root = cartpole.rand_action(cartpole.reset())
    act = cartpole._reset if name == "_reset" else cartpole._step
    with pytest.raises(error, match=f"'{name}': expected a mask"):
        act(root.clone().set(name, mask))
    cartpole.step(root)


def test_bad_seeds_at_reset(cartpole):
    with pytest.raises(ValueError, match="expected 3 seeds, got 2"):
        cartpole.reset(seed=[1, 2])
    with pytest.raises(ValueError, match="seed: expected at least 0, got -5"):
        cartpole.reset(seed=-5)
    with pytest.raises(TypeError, match="takes 'seed', 'options' and 'list_of_kwargs', got return_info"):
        cartpole.reset(return_info=True)
    cartpole.rollout(2)


def test_step_after_a_partial_first_reset():
    env = PoolEnv("CartPole-v1", 2)
    mask = env.full_done_spec.zero().select("done").rename_key_("done", "_reset")
    mask["_reset"][0] = True
    root = env.rand_action(env.reset(mask))
    with pytest.raises(RuntimeError, match=r"env 1 has not been reset: call reset\(\)"):
        env.step(root)
    env.rollout(2)


def test_bad_index(cartpole):
    cartpole.reset()
    for index in (3, -1):
        with pytest.raises(IndexError, match="env_index: expected 0 to 2"):
            cartpole.get_state(index)
    with pytest.raises(ValueError, match="at least one env"):
        cartpole.render([])


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


def test_state_of_another_task_or_none_at_all(cartpole, pendulum):
    cartpole.reset()
    pendulum.reset()
    (state,) = pendulum.get_state(0)
    with pytest.raises(ValueError, match="this state is of task 'Pendulum-v1', env 0 runs 'CartPole-v1'"):
        cartpole.set_state(state, 0)
    with pytest.raises(ValueError, match="no state that get_state returned"):
        pendulum.set_state(b"x" * 200, 0)
    for size in range(len(state)):
        with pytest.raises(ValueError, match=r"truncated|too short"):
            pendulum.set_state(state[:size], 0)
    with pytest.raises(ValueError, match="too long"):
        pendulum.set_state(state + b"x", 0)
    with pytest.raises(ValueError, match="expected 3 states, got 1"):
        pendulum.set_state([state])
    with pytest.raises(TypeError, match="expected bytes, got str"):
        pendulum.set_state(["state"] * 3)
    pendulum.set_state(state, 0)
    pendulum.rollout(2)


def test_task_without_render_or_state():
    env = PoolEnv("Fault-v0", 1)
    env.reset()
    with pytest.raises(NotImplementedError, match="task 'Fault-v0' cannot be rendered"):
        env.render()
    with pytest.raises(NotImplementedError, match="task 'Fault-v0' cannot save its state"):
        env.get_state()
