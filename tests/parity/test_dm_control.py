"""The DeepMind Control Suite against dm_control, through TorchRL's DMControlEnv.

NumPy computes exp, log1p, arcsinh, arctan2 and tanh with kernels of its own where the processor has wide
vectors, and as the C library where it has not, or is told so. The suite is compared bit for bit with a NumPy
that is told so; what the kernels change is bounded by a test of its own.
"""

import os

import numpy as np
import pytest
import torch
from cases import LONG, cases
from child import PLAIN_NUMPY, Child
from opengl import missing_opengl
from torchrl.envs.utils import check_env_specs

from torchrl_pool import EnvFailure, MultiThreadedEnv, PoolEnv, list_tasks, task_info
from torchrl_pool._plugins.names import envpool_id, suite_names

TASKS = list_tasks("dm_control")
DOMAINS = {suite_names(task)[0]: task for task in TASKS}  # one task of each


class DmControl(Child):
    def __init__(self, settings):
        super().__init__("dm_control_child.py", settings)

    def distances(self, task, steps, num_envs=1, seeds=(0, 1, 2), episodes=4, factors=()):
        return self.ask(
            "distances",
            task=task,
            steps=steps,
            num_envs=num_envs,
            seeds=seeds,
            episodes=episodes,
            factors=factors,
        )


MISSING_OPENGL = missing_opengl("dm_control/pendulum-swingup-v0")


def children(settings):
    @pytest.fixture(scope="module")
    def child():
        pytest.importorskip("dm_env", reason="dm_control is not installed: it exists up to Python 3.12")
        opengl = "disable" if MISSING_OPENGL else os.environ.get("MUJOCO_GL") or "egl"
        one = DmControl({**settings, "MUJOCO_GL": opengl})
        yield one
        one.close()

    return child


plain = children(PLAIN_NUMPY)
with_kernels = children({})


def test_family_is_complete(plain):
    assert plain.ask("ids") == TASKS


@pytest.mark.parametrize(
    "task", cases(default=["dm_control/ball_in_cup-catch-v0", "dm_control/pendulum-swingup-v0"], also=TASKS)
)
def test_equals_dm_control(task, plain):
    """Specs, observations, rewards and flags over 4 episodes of 3 seeds."""
    far = plain.distances(task, steps=120, num_envs=2) if LONG else plain.distances(task, steps=6)
    assert len(far) > 4
    assert not any(far.values()), far


@pytest.mark.parametrize(
    "task", cases(default=["dm_control/hopper-stand-v0", "dm_control/walker-walk-v0"], also=TASKS)
)
def test_actions_outside_of_their_bounds_equal_dm_controls(task, plain):
    """MuJoCo clamps the controls, and rewards that ask for small ones see them as they are."""
    factors = (1.0, 1.5, 3.0) if "/lqr" in task else (1.0, 1.0055562, 3.0, 1e3, 1e9, 1e200)
    far = plain.distances(task, steps=8, seeds=[4], episodes=2, factors=factors)
    assert not any(far.values()), far


@pytest.mark.parametrize(
    "task", cases(TASKS if LONG else ["dm_control/cheetah-run-v0", "dm_control/reacher-easy-v0"])
)
def test_whole_episodes_equal_dm_control(task, plain):
    """With its time limit, and several envs with seeds of TorchRL's chain."""
    far = plain.distances(task, steps=1000, num_envs=1 if LONG else 2, seeds=[5], episodes=1)
    assert not any(far.values()), far


@pytest.mark.parametrize(
    "task", cases(default=["dm_control/humanoid-walk-v0", "dm_control/stacker-stack_4-v0"], also=TASKS)
)
def test_numpys_kernels_change_the_last_bits_of_a_few_entries(task, with_kernels):
    """Those that such functions compute; never those that come from the simulation."""
    far = with_kernels.distances(task, steps=25, seeds=[0])
    bounds = {"reward": 4, "touch": 2, "force_torque": 2, "rangefinder": 4}
    assert all(distance <= bounds.get(key, 0) for key, distance in far.items()), far


@pytest.mark.skipif(MISSING_OPENGL is not None, reason=str(MISSING_OPENGL))
@pytest.mark.parametrize(
    ("task", "view"),
    cases(
        default=[
            ("dm_control/reacher-hard-v0", {"camera_id": -1}),
            ("dm_control/fish-upright-v0", {"camera_id": 0}),
        ],
        also=[
            ("dm_control/cheetah-run-v0", {"camera_id": 0}),
            ("dm_control/humanoid-walk-v0", {"camera_id": "side", "width": 100, "height": 80}),
            ("dm_control/swimmer-swimmer6-v0", {"camera_id": 1}),
            ("dm_control/quadruped-escape-v0", {"camera_id": -1, "width": 80, "height": 60}),
            ("dm_control/finger-spin-v0", {"camera_id": 0}),
            ("dm_control/finger-turn_easy-v0", {"visualize_reward": True, "camera_id": 0}),
            ("dm_control/walker-stand-v0", {"visualize_reward": True, "camera_id": 0}),
            ("dm_control/cartpole-balance-v0", {"visualize_reward": True, "camera_id": 1}),
        ],
    ),
)
def test_pictures_equal_dm_controls(task, view, plain):
    assert plain.ask("differing_pixels", task=task, **view) == [0, 0]


@pytest.mark.parametrize(
    "task",
    cases(
        default=[
            "dm_control/acrobot-swingup_sparse-v0",
            "dm_control/dog-walk-v0",
            "dm_control/humanoid-walk-v0",
            "dm_control/manipulator-insert_peg-v0",
            "dm_control/point_mass-hard-v0",
            "dm_control/quadruped-walk-v0",
            "dm_control/reacher-hard-v0",
            "dm_control/stacker-stack_4-v0",
        ],
        also=DOMAINS.values(),
    ),
)
def test_flat_observations_are_the_entries_one_behind_the_other(task, make_pool):
    dictionary, flat = make_pool(task, 1, seed=0), make_pool(task, 1, seed=0, flatten=True)
    assert list(flat.observation_spec.keys()) == ["observation"]
    entries, vector = dictionary.reset(), flat.reset()["observation"]
    keys = [spec.name for spec in dictionary._configs[0].specs if spec.role == "observation"]
    assert torch.equal(torch.cat([entries[key].flatten(1) for key in keys], 1), vector)


@pytest.mark.parametrize("task", cases(["dm_control/cartpole-swingup-v0", "dm_control/finger-turn_hard-v0"]))
def test_contract(task, make_pool):
    check_env_specs(make_pool(task, 2, seed=0))
    check_env_specs(make_pool(task, 2, seed=0, flatten=True, obs_dtype=torch.float32))


def test_a_seed_at_reset_begins_as_random_state_does(make_pool):
    """As dm_control's own ``suite.load(…, {"random": seed})`` does at its first reset; env i has seed + i."""
    root = make_pool("dm_control/acrobot-swingup-v0", 2).reset(seed=7)
    for i in range(2):
        shoulder, elbow = np.random.RandomState(7 + i).uniform(-np.pi, np.pi, 2)
        expected = torch.tensor([np.cos(shoulder), np.cos(shoulder + elbow)])
        assert torch.allclose(root["orientations"][i, 2:], expected, atol=1e-12)


def test_discount_and_warnings(make_pool):
    pool = make_pool(
        "dm_control/pendulum-swingup-v0", 2, info_keys=["discount", "warnings"], max_episode_steps=3
    )
    data = pool.rollout(3)
    assert torch.equal(data["next", "discount"], torch.ones(2, 3, 1, dtype=torch.float64))
    assert not data["next", "warnings"].any()
    assert data["next", "truncated"][:, -1].all()
    assert not data["next", "terminated"].any()


def test_a_mass_at_rest_ends_the_episode(make_pool):
    """lqr alone has ends of its own: here the moved mass is a damper."""
    pool = make_pool("dm_control/lqr-lqr_2_1-v0", 1, info_keys=["discount"])
    assert task_info("dm_control/lqr-lqr_2_1-v0").max_episode_steps is None
    root = pool.reset(seed=0)
    for _ in range(3000):
        root["action"] = -10 * root["velocity"][:, :1]
        data, root = pool.step_and_maybe_reset(root)
        if data["next", "done"].any():
            break
    assert data["next", "terminated"].all()
    assert not data["next", "truncated"].any()
    assert data["next", "discount"].item() == 0
    last = torch.cat([data["next", "position"], data["next", "velocity"]], -1)
    assert last.norm() < 1e-6


def test_a_simulation_that_diverges_fails_as_dm_controls_physics_error(make_pool):
    def push(pool):
        """In resonance, as hard as it goes."""
        root = pool.reset(seed=0)
        for _ in range(200):
            action = torch.where(root["velocity"][:, :1] < 0, -1e10, 1e10).double()
            root = pool.step(root.set("action", action))["next"]
            if root.get("warnings", torch.zeros(1)).any():
                break
        return root

    task = "dm_control/lqr-lqr_2_1-v0"
    with pytest.raises(EnvFailure, match="MuJoCo: Nan, Inf or huge value in QACC"):
        push(make_pool(task, 1))
    assert push(make_pool(task, 1, physics_errors=False, info_keys=["warnings"]))["warnings"].sum() == 1


def test_controls_that_mujoco_does_not_take_fail_as_dm_controls_physics_error(make_pool, plain):
    """Of a model whose controls have no range; beyond 1e10 MuJoCo warns."""
    task = "dm_control/lqr-lqr_2_1-v0"
    pool = make_pool(task, 1)
    with pytest.raises(EnvFailure, match="MuJoCo: Nan, Inf or huge value in CTRL"):
        pool.step(pool.reset().set("action", torch.full((1, 1), 1.1e10, dtype=torch.float64)))
    assert "BADCTRL" in plain.ask("physics_error", task=task, control=1.1e10)


def test_substeps(make_pool):
    roots = []
    for kwargs in ({}, {"n_sub_steps": 2}, {"n_sub_steps": 4}):
        pool = make_pool("dm_control/hopper-stand-v0", 1, **kwargs)
        root = pool.reset(seed=0)
        roots.append(
            pool.step(root.set("action", pool.full_action_spec.zero()["action"]))["next", "velocity"]
        )
    assert torch.equal(roots[0], roots[2])  # the task's own number
    assert not torch.equal(roots[0], roots[1])


def test_pairs_are_tasks(make_pool):
    pool = make_pool(("cheetah", "run"), 2)
    assert pool.task == "dm_control/cheetah-run-v0"
    assert make_pool([("walker", "walk"), ("walker", "run")], 2).task == [
        "dm_control/walker-walk-v0",
        "dm_control/walker-run-v0",
    ]
    for pair, nearest in {("cheetah", "fly"): "cheetah-run", ("walker", "wlk"): "walker-walk"}.items():
        for task in (pair, [pair, pair]):
            with pytest.raises(ValueError, match=f"unknown task .*did you mean 'dm_control/{nearest}-v0'"):
                PoolEnv(task, 2)
    with pytest.raises(ValueError, match=r"a pair is a tuple, \('walker', 'walk'\)"):
        PoolEnv(["walker", "walk"], 2)
    with pytest.raises(ValueError, match="unknown task 'CartPol'"):
        PoolEnv(["CartPole-v1", "CartPol"], 2)


def test_envpools_ids_name_tasks_for_multi_threaded_env():
    env = MultiThreadedEnv(2, "CheetahRun-v1")
    assert env.reset()["position"].shape == (2, 8)
    env.close()
    assert envpool_id("dm_control/lqr-lqr_2_1-v0") == "LqrLqr21-v1"
    assert envpool_id("dm_control/ball_in_cup-catch-v0") == "BallInCupCatch-v1"
    assert len({envpool_id(task) for task in TASKS}) == len(TASKS)


def test_episode_reward_has_the_rewards_dtype(make_pool):
    pool = make_pool("dm_control/walker-walk-v0", 2, info_keys=["episode_reward"], seed=0)
    data = pool.rollout(5)
    assert data["next", "reward"].dtype is torch.float64
    assert torch.equal(data["next", "episode_reward"], data["next", "reward"].cumsum(1))
