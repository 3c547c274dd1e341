"""Gymnasium-Robotics' Fetch and mazes, bit for bit: see robotics_child.py."""

import os

import pytest
from cases import LONG, cases
from child import PLAIN_NUMPY, Child
from opengl import missing_opengl

from torchrl_pool import list_tasks, task_info

if "FetchReach-v4" not in list_tasks():
    pytest.skip("built without the family robotics", allow_module_level=True)
TASKS = list_tasks("robotics")
MISSING_OPENGL = missing_opengl("FetchReach-v4")
SMALL = ["1111", "1cc1", "1c01", "1111"]
ANT = {"include_cfrc_ext_in_observation": False, "healthy_z_range": [0.4, 0.8], "ctrl_cost_weight": 0.1}
OPTIONS = [
    ("FetchReach-v4", {"reward_type": "dense"}),
    ("FetchSlideDense-v4", {"reward_type": "sparse"}),
    ("PointMaze_UMaze-v3", {"reward_type": "dense", "continuing_task": False}),
    ("PointMaze_UMaze-v3", {"maze_map": SMALL, "reset_target": True}),
    ("PointMaze_Large-v3", {"maze_map": ["11111", "1g0r1", "1g001", "11111"], "continuing_task": False}),
    ("PointMaze_Open-v3", {"maze_map": ["11111", "1r001", "11111"], "reset_target": True}),
    ("PointMaze_Open-v3", {"maze_map": ["11111", "10g01", "11111"]}),
    ("AntMaze_UMaze-v5", {**ANT, "forward_reward_weight": 1.3, "main_body": "aux_1", "frame_skip": 3}),
    ("AntMaze_UMaze-v5", {"maze_map": SMALL, "contact_cost_weight": 0.1, "reset_target": True}),
    ("AntMaze_UMaze-v4", {"use_contact_forces": True, "contact_force_range": [-0.5, 3.0]}),
]
HERE = {"goal_cell": [1, 1], "reset_cell": [1, 1]}  # near enough to reach the goal at once


def children(settings):
    @pytest.fixture(scope="module")
    def child():
        pytest.importorskip("gymnasium_robotics", reason="gymnasium-robotics is not installed")
        opengl = "disable" if MISSING_OPENGL else os.environ.get("MUJOCO_GL") or "egl"
        one = Child("robotics_child.py", {**settings, "MUJOCO_GL": opengl}, flags=["-O"])
        yield one
        one.close()

    return child


plain = children(PLAIN_NUMPY)
with_kernels = children({})


def assert_same(child, task, steps, **arguments):
    different, counts, missing = child.ask("compared", task=task, steps=steps, **arguments)
    assert not different
    assert not missing
    return counts


@pytest.mark.slow  # makes every env of the family
def test_family_is_complete_and_registered_as_there(plain):
    """All ids that run there, with their limits and options."""
    reference = plain.ask("registrations")
    assert sorted(reference) == TASKS
    for task, (limit, threshold, options) in reference.items():
        info = task_info(task)
        assert (info.max_episode_steps, info.reward_threshold) == (limit, threshold), task
        defaults = {option.name: option.default for option in info.options}
        assert {name: defaults[name] for name in options} == options, task


@pytest.mark.parametrize("task", cases(default=["FetchReachDense-v4", "FetchSlideDense-v4"], also=TASKS))
def test_equals_gymnasium_robotics(task, plain):
    limit = {} if LONG or task.startswith("Fetch") else {"max_episode_steps": 20}
    counts = assert_same(plain, task, 1100 if LONG else 60, options=limit)
    assert counts["ended"] >= 2


@pytest.mark.parametrize("task", cases(default=["FetchPushDense-v4", "FetchReachDense-v4"], also=TASKS))
def test_specs_equal_those_of_gym_env(task, plain):
    assert plain.ask("different_specs", task=task) == []


@pytest.mark.parametrize(("task", "options"), OPTIONS)
def test_options_act_as_there(task, options, plain):
    assert assert_same(plain, task, 80, options={**options, "max_episode_steps": 30})["ended"] >= 2


@pytest.mark.parametrize("robot", ["AntMaze_UMaze-v5", "PointMaze_UMaze-v3"])
@pytest.mark.parametrize("continuing", cases([True, False]))
def test_goals_that_are_reached(robot, continuing, plain):
    """An episode ends there, or another goal is drawn."""
    options = {"continuing_task": continuing, "reset_target": True, "maze_map": SMALL}
    counts = assert_same(plain, robot, 25, num_envs=6, options=options, reset_options=HERE)
    assert counts["reached"] > 0
    assert (counts["terminated"] > 0) is not continuing


@pytest.mark.parametrize(
    "chosen", cases(default=[{"reset_cell": [1, 3]}, {}], also=[{"goal_cell": [3, 1]}, HERE])
)
@pytest.mark.parametrize("task", ["AntMaze_UMazeDense-v5", "PointMaze_UMaze-v3"])
def test_reset_options_act_as_there(task, chosen, plain):
    assert_same(plain, task, 2, reset_options=chosen)


@pytest.mark.slow  # thousands of steps of the reference
def test_numpys_kernels_change_the_last_bits_of_angles(with_kernels):
    """And nothing that the simulation computes."""
    different, _, _ = with_kernels.ask("compared", task="FetchPush-v4", steps=100)
    assert set(different) <= {"reset observation", "step observation"}
    assert all(set(indices) <= {11, 12, 13} for indices in different.values())


@pytest.mark.skipif(MISSING_OPENGL is not None, reason=str(MISSING_OPENGL))
@pytest.mark.parametrize(
    "task",
    cases(default=["FetchReach-v4", "FetchPickAndPlace-v4", "PointMaze_Large-v3"], also=["AntMaze_UMaze-v5"]),
)
def test_pictures_equal_those_of_gymnasium_robotics(task, plain):
    for different, shows_something in plain.ask("differing_pixels", task=task):
        assert different == 0
        assert shows_something
