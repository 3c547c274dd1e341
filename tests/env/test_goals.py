"""Tasks with goals: rewards in torch, mazes and cells that are refused, and saved states."""

import pytest
import torch
from cases import cases
from opengl import missing_opengl

from torchrl_pool import EnvFailure, PoolEnv, goal_reward, list_tasks

pytestmark = pytest.mark.skipif(
    "FetchReach-v4" not in list_tasks(), reason="built without the family robotics"
)
MISSING_OPENGL = missing_opengl("FetchReach-v4") if "FetchReach-v4" in list_tasks() else "not built"
HERE = {"goal_cell": [1, 1], "reset_cell": [1, 1]}


@pytest.mark.parametrize(
    ("task", "options"),
    cases(
        default=[("FetchPushDense-v4", {}), ("PointMaze_UMazeDense-v3", HERE), ("AntMaze_UMaze-v5", HERE)],
        also=[
            ("FetchReach-v4", {}),
            ("FetchReach-v4", {"reward_type": "dense"}),
            ("PointMaze_UMaze-v3", HERE),
        ],
    ),
)
def test_rewards_in_torch_are_the_pools(task, options):
    cells = options if "goal_cell" in options else None
    options = {} if cells else options
    env = PoolEnv(task, 4, device="cpu", seed=0, **options)
    reward = goal_reward(task, **options)
    root, seen = env.reset(options=cells), set()
    for _ in range(60):
        after = env.step(root.update(env.rand_action()))["next"]
        expected = reward(after["achieved_goal"], after["desired_goal"])
        assert expected.dtype is torch.float32
        assert torch.equal(expected, after["reward"])
        seen |= set(after["reward"].flatten().tolist())
        root = after
    assert len(seen) > 1 or task.startswith(("FetchReach", "AntMaze"))
    env.close()


def test_rewards_broadcast_and_know_what_is_reached():
    reward = goal_reward("FetchReach-v4")
    assert reward(torch.zeros(5, 1, 3), torch.zeros(7, 3)).shape == (5, 7, 1)
    assert reward(torch.zeros(3), torch.tensor([0.0, 0.04, 0.0])).item() == 0
    assert reward(torch.zeros(3), torch.tensor([0.0, 0.04, 0.04])).item() == -1


def test_tasks_without_goals_are_refused():
    with pytest.raises(ValueError, match="expected one of the family 'robotics'"):
        goal_reward("CartPole-v1")
    with pytest.raises(ValueError, match="expected one of 'sparse', 'dense'"):
        goal_reward("FetchReach-v4", "shaped")


@pytest.mark.parametrize("cell", cases(default=[[2, 1], [1, 5]], also=[[0, 0], [-1, 1]]))
@pytest.mark.parametrize("name", ["goal_cell", "reset_cell"])
def test_walls_and_cells_outside_are_refused(name, cell):
    env = PoolEnv("PointMaze_UMaze-v3", 2, device="cpu")
    with pytest.raises(ValueError, match=rf"{name}: expected a row below 5 and a column below 5 where"):
        env.reset(options={name: cell})
    env.close()


def test_cells_may_be_arrays_and_differ_between_envs():
    env = PoolEnv("PointMaze_UMaze-v3", 2, device="cpu", seed=0)
    cells = [torch.tensor([1, 1]), torch.tensor([3, 3]).numpy()]
    goal = env.reset(options=[{"goal_cell": cell} for cell in cells])["desired_goal"]
    assert ((goal - torch.tensor([[-1.0, 1.0], [1.0, -1.0]])).abs() <= 0.25).all()
    env.close()


@pytest.mark.parametrize(
    ("maze", "message"),
    cases(
        [
            ([], "no cell for goals"),
            (["111", "11"], "rows of equal length, got '11' after '111'"),
            (["111", "1x1", "111"], "the letters 0, 1, r, g and c, got '1x1'"),
            (["1r1"], "no cell for goals; expected '0', 'g' or 'c'"),
            (["1g1"], "no cell for starts; expected '0', 'r' or 'c'"),
        ]
    ),
)
def test_maps_that_are_none_are_refused(maze, message):
    with pytest.raises(ValueError, match=message):
        PoolEnv("PointMaze_UMaze-v3", 2, maze_map=maze).reset()


def test_a_maze_with_one_place_fails_instead_of_drawing_for_ever():
    env = PoolEnv("PointMaze_UMaze-v3", 2, device="cpu", maze_map=["111", "1c1", "111"])
    with pytest.raises(EnvFailure, match="within half a cell of the goal"):
        env.reset()
    env.close()


SIMULATED = ["FetchPickAndPlace-v4", "FetchReach-v4", "PointMaze_UMaze-v3", "AntMaze_UMaze-v5"]


def played(env, root, steps, before_each=None):
    """The batches of some steps with actions that depend on the number of the step alone."""
    batches = []
    for i in range(steps):
        if before_each:
            before_each()
        generator = torch.Generator().manual_seed(i)
        shape = env.action_spec.shape
        root["action"] = torch.rand(shape, generator=generator) * 2 - 1
        td, root = env.step_and_maybe_reset(root)
        batches.append(td["next"])
    return root, torch.stack(batches)


@pytest.mark.parametrize("task", cases(default=["FetchReach-v4", "PointMaze_UMaze-v3"], also=SIMULATED))
def test_saved_envs_go_on_with_the_same_bits(task):
    """A step of FetchPickAndPlace leaves places behind that are not those of its state."""
    env, twin = (PoolEnv(task, 2, device="cpu", seed=seed, max_episode_steps=12) for seed in (0, 1))
    twin.reset()
    root, _ = played(env, env.reset(), 8)
    twin.set_state(env.get_state())
    (_, expected), (_, actual) = played(env, root.clone(), 10), played(twin, root.clone(), 10)
    assert (expected == actual).all()
    env.close()
    twin.close()


@pytest.mark.skipif(MISSING_OPENGL is not None, reason=str(MISSING_OPENGL))
@pytest.mark.parametrize(
    "task", cases(default=["FetchPickAndPlace-v4", "FetchReach-v4", "AntMaze_UMaze-v5"], also=SIMULATED)
)
def test_pictures_change_nothing(task):
    env, twin = (PoolEnv(task, 2, device="cpu", seed=0, width=32, height=32) for _ in range(2))
    (_, expected), (_, actual) = played(env, env.reset(), 6), played(twin, twin.reset(), 6, twin.render)
    assert (expected == actual).all()
    env.close()
    twin.close()
