"""Toy texts against Gymnasium, bit for bit."""

import textwrap
from functools import partial
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch
from cases import cases
from comparing import assert_steps_equal
from gymnasium.wrappers import TransformObservation
from processes import printed
from reference import N, assert_registered_as_in_gymnasium, gymnasium_env
from torchrl.envs import GymEnv, GymWrapper, SerialEnv

from torchrl_pool import PoolEnv, _core, list_tasks
from torchrl_pool._plugins.building import compile_plugin
from torchrl_pool.testing import assert_same_trajectories

TASKS = list_tasks("toy_text")
TESTS = Path(__file__).parents[1]
LAKE = ["SFHS", "FFFF", "G FH", "FHFG", "XFFF"]


def infos_of(task):
    return {"Blackjack-v1": (), "Taxi-v4": ("prob", "action_mask")}.get(task, ("prob",))


def towards_the_end(pool, root):
    """Random actions, but mostly those that bring an episode to its own end."""
    action = pool.rand_action()["action"]
    state = root["observation"]
    if pool.task.startswith("CliffWalking"):
        up, right, down = (torch.full_like(state, move) for move in range(3))
        wise = torch.where(state % 12 == 11, down, torch.where(state // 12 >= 2, up, right))
        return torch.where(torch.rand(N) < 0.9, wise, action)
    if pool.task == "Taxi-v4":
        stands = torch.tensor([0, 4, 20, 23])
        arrives = (state // 4 % 5 == 4) & (stands[state % 4] == state // 20)
        return torch.where(root["action_mask"][:, 4] == 1, 4, torch.where(arrives, 5, action))
    return action


def tuple_as_array(env):
    """Blackjack with the observation space that stands nearest to its Tuple, which GymEnv cannot read."""
    space = gymnasium.spaces.MultiDiscrete([part.n for part in env.observation_space])
    return TransformObservation(env, np.array, space)


def gym_env(task, **kwargs):
    if task == "Blackjack-v1":
        return GymWrapper(tuple_as_array(gymnasium.make(task)), **kwargs)
    return GymEnv(task, **kwargs)


def compare(task, steps=400, seeds=(0, 1, 2), make=None, **options):
    make = make or partial(gymnasium_env, task)
    return assert_same_trajectories(
        task, make, steps=steps, seeds=seeds, info_keys=infos_of(task), policy=towards_the_end, **options
    )


def test_family_is_complete():
    reference = {id for id, spec in gymnasium.registry.items() if "toy_text" in str(spec.entry_point)}
    assert set(TASKS) == reference


def test_registrations_equal_gymnasiums():
    for task in TASKS:
        assert_registered_as_in_gymnasium(task)


@pytest.mark.parametrize("task", cases(default=["Blackjack-v1", "FrozenLake8x8-v1"], also=TASKS))
def test_equals_gymnasium(task):
    rollouts = compare(task)
    assert torch.stack(rollouts)["next", "terminated"].any()


@pytest.mark.parametrize(
    ("task", "options"),
    cases(
        default=[
            ("FrozenLake-v1", {"map_name": "8x8"}),
            ("Taxi-v4", {"fickle_passenger": True, "fickle_probability": 1.0, "is_rainy": True}),
            ("Blackjack-v1", {"sab": False, "natural": True}),
            ("Blackjack-v1", {"natural": True}),
        ],
        also=[
            ("FrozenLake-v1", {"is_slippery": False}),
            ("FrozenLake-v1", {"success_rate": 0.8}),
            ("FrozenLake-v1", {"reward_schedule": [10, -3, -0.1]}),
            ("FrozenLake-v1", {"desc": LAKE}),
            ("FrozenLake8x8-v1", {"desc": ["SG"], "map_name": None, "success_rate": 0.1}),
            ("FrozenLake8x8-v1", {"is_slippery": False, "reward_schedule": (0.5, 0.25, 2)}),
            ("CliffWalking-v1", {"is_slippery": True}),
            ("CliffWalkingSlippery-v1", {"is_slippery": False}),
            ("Taxi-v4", {"is_rainy": True}),
            ("Taxi-v4", {"is_rainy": True, "rainy_probability": 0.4}),
            ("Taxi-v4", {"fickle_passenger": True}),
            ("Blackjack-v1", {"sab": False}),
        ],
    ),
    ids=lambda value: "-".join(value) if isinstance(value, dict) else value,
)
def test_options_equal_gymnasiums(task, options):
    (with_options,) = compare(task, 800, [4], partial(gymnasium_env, task, **options), **options)
    assert with_options["next", "terminated"].any()
    if task == "Blackjack-v1" and options.get("sab", True):
        return  # `natural` is without effect there
    (default,) = compare(task, 800, [4])
    changed = [key for key in default.keys(True, True) if not torch.equal(default[key], with_options[key])]
    assert changed, "the option makes no difference here: nothing was tested"


@pytest.mark.parametrize("task", cases(default=["FrozenLake-v1", "FrozenLake8x8-v1"], also=TASKS))
def test_time_limits_equal_gymnasiums(task):
    (short,) = compare(task, 40, [0], partial(gymnasium_env, task, max_episode_steps=3), max_episode_steps=3)
    assert short["next", "truncated"].any()
    (endless,) = compare(
        task, 300, [0], partial(gymnasium_env, task, max_episode_steps=-1), max_episode_steps=None
    )
    assert not endless["next", "truncated"].any()


@pytest.mark.parametrize("categorical", [False, True])
@pytest.mark.parametrize("task", cases(default=["CliffWalking-v1", "FrozenLake8x8-v1"], also=TASKS))
def test_specs_and_rollouts_equal_those_of_gym_env(task, categorical):
    pool = PoolEnv(task, N, device="cpu", categorical_action_encoding=categorical)
    reference = SerialEnv(N, lambda: gym_env(task, categorical_action_encoding=categorical))
    for kind in ("observation", "action", "reward", "done", "state"):
        assert getattr(pool, f"full_{kind}_spec") == getattr(reference, f"full_{kind}_spec")
    assert pool.set_seed(5) == reference.set_seed(5)
    assert_steps_equal(pool, reference, 60)
    pool.close()
    reference.close()


def test_envs_with_options_of_their_own():
    per_env = [{"is_slippery": False}, {"success_rate": 0.9}, {"desc": ["SFFF", "FFFF", "FFFF", "FFFG"]}]
    mixed = PoolEnv("FrozenLake-v1", N, env_options=per_env, seed=1)
    alone = [PoolEnv("FrozenLake-v1", N, seed=1, **options) for options in per_env]
    torch.manual_seed(0)
    actual = mixed.rollout(80, break_when_any_done=False)
    for i, pool in enumerate(alone):
        torch.manual_seed(0)
        assert (pool.rollout(80, break_when_any_done=False)[i] == actual[i]).all()
    with pytest.raises(ValueError, match="different shapes, dtypes or numbers of categories"):
        PoolEnv("FrozenLake-v1", 2, env_options=[{"map_name": "4x4"}, {"map_name": "8x8"}])


def test_random_maps_can_be_crossed():
    maps = []
    for _ in range(3):
        pool = PoolEnv("FrozenLake-v1", 8, map_name=None, is_slippery=False, max_episode_steps=None)
        root = pool.reset(seed=0)
        moves, goals = {}, set()
        for _ in range(500):
            td, root = pool.step_and_maybe_reset(pool.rand_action(root))
            here, there = (t["observation"].argmax(-1).tolist() for t in (td, td["next"]))
            for i in range(8):
                moves.setdefault(here[i], set()).add(there[i])
                if td["next", "reward"][i] == 1:
                    goals.add(there[i])
        assert root["observation"].shape == (8, 64)
        assert goals <= {63}
        assert len(moves) > 1  # the start is not walled in
        maps.append(sorted((cell, *sorted(to)) for cell, to in moves.items()))
    assert maps[0] != maps[1] or maps[1] != maps[2]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    cases(
        default=[
            ({"desc": ["SF", "G"]}, ValueError, "its rows differ in length"),
            ({"desc": ["FF", "FG"]}, ValueError, "has no start"),
            ({"desc": []}, ValueError, "has no cells"),
            ({"reward_schedule": [1, 2]}, ValueError, "expected 3 elements"),
            ({"success_rate": 1.5}, ValueError, r"expected a number in \[0, 1\]"),
        ],
        also=[
            ({"desc": 7}, TypeError, "option 'desc': expected list of str or None, got 7"),
            ({"desc": ["SF", 7]}, TypeError, "option 'desc': expected list of str or None"),
            ({"map_name": "5x5"}, ValueError, "expected one of '4x4', '8x8', got '5x5'"),
        ],
    ),
)
def test_bad_options(options, error, message):
    with pytest.raises(error, match=message):
        PoolEnv("FrozenLake-v1", 1, **options)


@pytest.fixture(scope="module")
def taxis():
    """A library of one task, from the installed headers, as a stranger's, and from what families share."""
    shared = TESTS.parent / "cpp" / "envs"
    sources = ("toy_text/taxi.cc", "toy_text/plugin.cc", "image.cc", "picture.cc")
    return str(compile_plugin([shared / name for name in sources], flags=("-O0", f"-I{shared}")))


@pytest.mark.slow  # builds a plugin
def test_the_family_builds_as_a_strangers_would(taxis):
    assert [task["id"] for task in _core.load_plugin(taxis).tasks] == ["Taxi-v4"]


@pytest.mark.slow  # a program of its own
def test_without_gymnasiums_images_there_are_no_pictures(taxis):
    """Where a build has none to take them from: the tasks run, and say what is missing."""
    code = f"""
        from torchrl_pool import PoolEnv
        from torchrl_pool._plugins import loading
        loading._builtin_loaded = True  # this library brings the task, not the package's own
        loading.load_plugin({taxis!r})
        env = PoolEnv("Taxi-v4", 2)
        env.rollout(5)
        try:
            env.render()
        except FileNotFoundError as error:
            print(error)
    """
    expected = "taxi/background.rgba: this library was built without Gymnasium's images"
    assert expected in printed(textwrap.dedent(code))


def test_saved_states_of_places_beside_the_map_are_refused():
    env = PoolEnv("Taxi-v4", 1, seed=0)
    env.reset()
    (state,) = env.get_state()
    refused = 0
    for at in range(len(state)):
        try:
            env.set_state([state[:at] + b"\x09" + state[at + 1 :]])
        except ValueError:
            refused += 1
        else:  # of the random numbers, or of the limit
            following = env.step(env.rand_action())["next"]
            assert env.observation_spec.is_in(following.select(*env.observation_spec.keys()))
    assert refused > 3
