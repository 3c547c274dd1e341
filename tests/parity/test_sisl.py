"""PettingZoo's SISL, bit for bit, with the entries of TorchRL's PettingZooWrapper: see mpe_child.py."""

import inspect
import struct

import pytest
import torch
from cases import LONG
from child import Child

from torchrl_pool import EnvFailure, PoolEnv, list_tasks, task_info

TASK = "sisl/pursuit_v5"
MULTIWALKER = "sisl/multiwalker_v9"
# Of the constructor: what render() and from_pixels replace, and policies in Python.
LEFT_OUT = {"render_mode", "evader_controller", "pursuer_controller"}
OWN = {"group_map", "done_on_any"}
ON_TOP = {"surround": False}
OPTIONS = [
    {},
    {"shared_reward": False, "max_cycles": 50},
    {"n_pursuers": 1, "obs_range": 1},
    {"n_pursuers": 21, "n_evaders": 2, "obs_range": 6, "tag_reward": 0.3, "urgency_reward": 0.0},
    {"x_size": 9, "y_size": 21, "n_evaders": 3, "obs_range": 40, "shared_reward": False},
    {"x_size": 1, "y_size": 5, "n_evaders": 1, "n_pursuers": 2},
    {"x_size": 3, "y_size": 2, "n_evaders": 1, "n_pursuers": 2},
    {"freeze_evaders": True, "catch_reward": 7.7, **ON_TOP},
    {"n_catch": 0, "max_cycles": 1, **ON_TOP},
    {"constraint_window": 0.8, "n_evaders": 9, "n_pursuers": 5, "max_cycles": 10},
    {"constraint_window": 0.45, "x_size": 40, "n_evaders": 2, "n_pursuers": 2, "max_cycles": 10},
    {"group_map": "one_group_per_agent", "n_pursuers": 3, "shared_reward": False, "tag_reward": 1.0},
]
# Episodes in which all evaders are caught.
CAUGHT = [
    {
        "n_evaders": 3,
        "n_pursuers": 4,
        "n_catch": 1,
        "x_size": 7,
        "y_size": 6,
        "shared_reward": False,
        **ON_TOP,
    },
    {"n_evaders": 1, "n_pursuers": 4, "x_size": 5, "y_size": 4},
]


@pytest.fixture(scope="module")
def child():
    pytest.importorskip("pettingzoo.sisl.pursuit", reason="PettingZoo's SISL is not installed")
    one = Child("mpe_child.py", {})
    yield one
    one.close()


def assert_same(child, steps, task=TASK, **arguments):
    steps *= 5 if LONG else 1
    different, counts = child.ask("compared", task=task, steps=steps, **arguments)
    assert not different
    return counts


def assert_has_options_of(constructor, task):
    expected = {name: p.default for name, p in inspect.signature(constructor).parameters.items()}
    options = {option.name: option.default for option in task_info(task).options}
    assert options.keys() - OWN == expected.keys() - LEFT_OUT
    assert all(options[name] == expected[name] for name in options.keys() - OWN)


def test_has_the_options_of_pettingzoo():
    base = pytest.importorskip("pettingzoo.sisl.pursuit.pursuit_base")
    assert_has_options_of(base.Pursuit, TASK)
    assert set(list_tasks("sisl")) == {TASK, MULTIWALKER}


@pytest.mark.parametrize("options", OPTIONS)
def test_equals_pettingzoo(options, child):
    counts = assert_same(child, 60, options=options, toward=0.5)
    assert counts["truncated"] >= 3 or "max_cycles" not in options


@pytest.mark.slow  # long episodes of the reference
@pytest.mark.parametrize("options", CAUGHT)
def test_episodes_in_which_all_are_caught(options, child):
    counts = assert_same(child, 150, options={**options, "max_cycles": 100})
    assert counts["terminated"] > 0


@pytest.mark.parametrize(
    "options", [{}, {"n_evaders": 1, "x_size": 20, "obs_range": 4}, {"group_map": "one_group_per_agent"}]
)
def test_specs_and_groups_equal_pettingzoo_wrappers(options, child):
    assert child.ask("different_specs", task=TASK, options=options) == []


@pytest.mark.parametrize("options", [{"obs_range": 4, "n_pursuers": 20, "x_size": 20, **ON_TOP}, {}])
def test_pictures_equal_pettingzoos_but_for_numbers(options, child):
    different, num_pictures = child.ask("different_pictures", task=TASK, options=options, steps=20)
    assert not different
    assert num_pictures == 20


@pytest.mark.parametrize(
    "options",
    [
        {"n_evaders": 0},
        {"n_pursuers": 201},
        {"x_size": 0},
        {"y_size": 201},
        {"obs_range": 0},
        {"max_cycles": 0},
        {"n_catch": -1},
        {"constraint_window": 1.1},
    ],
    ids=lambda options: next(iter(options)),
)
def test_numbers_that_do_not_fit_are_refused(options):
    (name,) = options
    with pytest.raises(ValueError, match=f"option '{name}': expected a number in"):
        PoolEnv(TASK, 1, **options)


# Around a building of one cell is room for four, and three can leave none.
CROWDS = [
    (
        {"x_size": 3, "y_size": 3, "n_pursuers": 1, "n_evaders": 4},
        "before number [23] leave none of the 3 by 3",
    ),
    ({"constraint_window": 0.0}, "those before number 0 leave none of the 0 by 0"),
    ({"n_evaders": 101}, "n_evaders=101, .* none of the 16 by 16 cells"),
]


@pytest.mark.parametrize(("options", "message"), CROWDS, ids=["no_room_left", "no_cells", "too_many"])
def test_agents_for_whom_there_is_no_room_are_a_failure(options, message):
    """PettingZoo never returns."""
    pool = PoolEnv(TASK, 64, seed=0, **options)
    with pytest.raises(EnvFailure, match=message):
        pool.reset()


def test_states_of_other_envs_are_refused():
    small, large = PoolEnv(TASK, 1, x_size=9), PoolEnv(TASK, 1)
    small.reset()
    large.reset()
    with pytest.raises((ValueError, EnvFailure)):
        small.set_state(large.get_state())


# ---- multiwalker

ONE_BY_ONE = {"done_on_any": False, "terminate_on_fall": False}
WALKS = [
    {},
    {"remove_on_fall": False},
    {"terminate_on_fall": False, "shared_reward": False, "n_walkers": 2},
    {"forward_reward": 3.3, "terminate_reward": -0.7, "fall_reward": 0.1, "position_noise": 0.0},
    {"n_walkers": 9, "angle_noise": 0.3, "terrain_length": 80, "shared_reward": False},
    {"n_walkers": 1, "terrain_length": 20, "max_cycles": 40},
    {"n_walkers": 2, "terrain_length": 1},
    {"group_map": "one_group_per_agent", "remove_on_fall": False, "max_cycles": 50},
    {**ONE_BY_ONE, "shared_reward": False},
    {**ONE_BY_ONE, "remove_on_fall": False, "max_cycles": 100, "group_map": "one_group_per_agent"},
]


@pytest.fixture
def child_with_box2d(child):
    pytest.importorskip("Box2D", reason="there are wheels of box2d for CPython 3.11 to 3.13 on x86-64 alone")
    return child


def test_multiwalker_has_the_options_of_pettingzoo(child_with_box2d):
    from pettingzoo.sisl.multiwalker import multiwalker_base

    assert_has_options_of(multiwalker_base.MultiWalkerEnv, MULTIWALKER)


@pytest.mark.parametrize("options", WALKS)
def test_multiwalker_equals_pettingzoo(options, child_with_box2d):
    """Half of the actions are beyond their bounds. max_cycles terminates there, too."""
    counts = assert_same(child_with_box2d, 150, MULTIWALKER, options=options, toward=0.5, spread=1.0)
    assert counts["terminated"] >= 3
    assert counts["truncated"] == 0
    assert counts["some are done"] > 0 or options.get("terminate_on_fall", True)


@pytest.mark.parametrize(
    "options",
    [
        {"n_walkers": 1, "terrain_length": 20, "max_cycles": 35},
        {},
        {"shared_reward": False, **ONE_BY_ONE},
        {"n_walkers": 5, "remove_on_fall": False, **ONE_BY_ONE},
        {"n_walkers": 9, "terrain_length": 80, **ONE_BY_ONE},
        {"n_walkers": 2, "terrain_length": 1, "group_map": "one_group_per_agent"},
    ],
)
def test_pictures_of_walkers_equal_pettingzoos(options, child_with_box2d):
    """From the second on, walkers are taken away, until the world begins within the window."""
    steps = 500 if LONG else 110
    different, num_pictures = child_with_box2d.ask(
        "different_pictures", task=MULTIWALKER, options=options, steps=steps
    )
    assert not different
    assert num_pictures > (4 if options.get("terrain_length") == 1 else steps / 2)


def test_a_picture_of_walkers_is_the_states():
    """Also of one that is restored, in which somebody has been taken away."""
    pool, other = (PoolEnv(MULTIWALKER, 4, seed=seed, **ONE_BY_ONE) for seed in (0, 1))
    torch.manual_seed(0)
    root = pool.reset()
    for _ in range(70):
        root = pool.step(pool.rand_action(root))["next"]
    assert not root["walker", "mask"].all()
    other.reset()
    other.set_state(pool.get_state())
    assert other.render().equal(pool.render())


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"n_walkers": 5, "remove_on_fall": False, **ONE_BY_ONE},
        {"group_map": "one_group_per_agent", **ONE_BY_ONE},
    ],
)
def test_specs_and_groups_of_walkers_equal_pettingzoo_wrappers(options, child_with_box2d):
    assert child_with_box2d.ask("different_specs", task=MULTIWALKER, options=options) == []


def test_walkers_that_have_left_do_nothing():
    """The pool may be stepped past the end, where PettingZoo has no agents to step."""
    pool = PoolEnv(MULTIWALKER, 4, max_cycles=30, info_keys=["state"], seed=0, **ONE_BY_ONE)
    root = pool.reset()
    for _ in range(30):
        root = pool.step(pool.rand_action(root))["next"]
    assert root["done"].all()
    assert not root["truncated"].any()
    past = pool.step(pool.rand_action(root))["next"]
    assert past["terminated"].all()
    assert past["truncated"].all()
    assert not past["walker", "observation"].any()
    assert not past["walker", "reward"].any()
    assert not past["walker", "mask"].any()
    assert past["state"].isfinite().all()


def test_torques_that_are_no_numbers_are_refused():
    pool = PoolEnv(MULTIWALKER, 3)
    root = pool.rand_action(pool.reset())
    before = pool.get_state()
    for value in (float("nan"), float("inf")):
        bad = root.clone()
        bad["walker", "action"][1, 2, 3] = value
        with pytest.raises(ValueError, match="'walker/action' of env 1, element 11: expected a finite"):
            pool.step(bad)
    assert pool.get_state() == before


def test_states_of_other_numbers_of_walkers_are_refused():
    """Actions of six could be those of three in twice as many steps."""
    pool, other = PoolEnv(MULTIWALKER, 1), PoolEnv(MULTIWALKER, 1, n_walkers=6)
    pool.reset()
    before = pool.get_state()
    other.step(other.rand_action(other.reset()))
    with pytest.raises(ValueError, match="expected a saved state of 3 walkers"):
        pool.set_state(other.get_state())
    assert pool.get_state() == before


def test_states_that_lack_an_action_are_refused():
    pool = PoolEnv(MULTIWALKER, 1)
    pool.step(pool.rand_action(pool.reset()))
    (state,) = pool.get_state()
    size = 4 * 4  # bytes of a walker's torques, of which there are three at the end, after their number
    lacking = state[: -3 * size - 8] + struct.pack("=Q", 2) + state[-2 * size :]
    with pytest.raises(ValueError, match="expected a saved state of 3 walkers, with all their actions"):
        pool.set_state([lacking])
    assert pool.get_state() == [state]
