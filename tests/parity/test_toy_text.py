"""Toy texts against Gymnasium, bit for bit."""

import textwrap
from pathlib import Path

import pytest
import torch
from cases import cases
from processes import printed
from references.reference import N

from torchrl_pool import PoolEnv, _core
from torchrl_pool._plugins.building import compile_plugin

TESTS = Path(__file__).parents[1]


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
