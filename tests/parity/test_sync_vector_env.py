"""PoolVectorEnv against Gymnasium's SyncVectorEnv: observations, rewards, flags and infos, bit for bit."""

import ale_py
import gymnasium
import minigrid  # noqa: F401 (which registers its envs)
import numpy as np
import pytest
from cases import LONG, cases
from comparing import assert_same
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import AtariPreprocessing, FilterObservation, FrameStackObservation, TimeLimit
from references.reference import N, gymnasium_env

from torchrl_pool import list_tasks
from torchrl_pool.gymnasium import PoolVectorEnv

gymnasium.register_envs(ale_py)
ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*:DeprecationWarning:gymnasium", "ignore:.*:UserWarning:gymnasium"
)

# Taken from the middle of families whose tasks are alike.
MUJOCO = ["Ant-v5", "HalfCheetah-v4", "Hopper-v5", "Humanoid-v5", "InvertedPendulum-v5", "Reacher-v5"]
ATARI = ["ALE/Breakout-v5", "ALE/Pong-v5"]
SMALL = [*list_tasks("classic"), *list_tasks("toy_text")]
BOX2D = ["LunarLander-v3", "BipedalWalkerHardcore-v3", "CarRacing-v3"]
GRIDS = ["MiniGrid-DoorKey-5x5-v0"]
TASKS = [*SMALL, *BOX2D, *GRIDS, *(list_tasks("mujoco") if LONG else MUJOCO), *ATARI]
MODES = list(AutoresetMode)
NOT_HERE = {"seeds"}  # what ale-py says of its own seeding


def limit_of(task):
    """So short that episodes end in all tasks, by the limit at least."""
    return 12 if task.startswith("ALE/") else 25


def pool_of(task, num_envs, **options):
    return PoolVectorEnv(task, num_envs, **options, **({"mission": "none"} if task in GRIDS else {}))


def reference_of(task, num_envs, mode, **options):
    def make():
        if task in GRIDS:  # whose missions are characters in a pool
            env = gymnasium_env(task, max_episode_steps=limit_of(task), **options)
            return FilterObservation(env, ["direction", "image"])
        if not task.startswith("ALE/"):
            return gymnasium_env(task, max_episode_steps=limit_of(task), **options)
        env = gymnasium_env(task, frameskip=1)
        return TimeLimit(FrameStackObservation(AtariPreprocessing(env), 4), limit_of(task))

    return SyncVectorEnv([make] * num_envs, autoreset_mode=mode)


def assert_same_infos(actual, expected, what):
    assert {k for k in expected if k.lstrip("_") not in NOT_HERE} <= set(actual), what
    for key in actual:
        if key.startswith("_") or key not in expected:
            continue  # at a reset Gymnasium leaves out what the first step will tell
        values, given = expected[key], expected[f"_{key}"]
        if key == "final_info":
            assert np.array_equal(actual["_final_info"], given)
            assert_same_infos(actual[key], values, f"{what}: final_info")
        elif key == "final_obs":
            assert np.array_equal(actual["_final_obs"], given)
            for i, (one, other) in enumerate(zip(actual[key], values, strict=True)):
                if other is None:
                    assert one is None
                else:
                    assert_same(one, other, f"{what}: final_obs of env {i}")
        elif key == "prob" and values.dtype.kind == "i":
            pass  # rounded: a reset's is the int 1, whose dtype the others get
        else:
            assert actual[f"_{key}"][given].all(), f"{what}: _{key}"
            assert_same(actual[key][given], values[given], f"{what}: {key}")


def assert_same_calls(pool, reference, steps, seed, choose):
    """Every result of a reset and as many steps; returns how many episodes ended."""
    observations, infos = pool.reset(seed=seed)
    expected, expected_infos = reference.reset(seed=seed)
    assert_same(observations, expected, "first observations")
    assert_same_infos(infos, expected_infos, "first infos")
    ended = 0
    for t in range(steps):
        actions = choose(t)
        got, due = pool.step(actions), reference.step(actions)
        for name, one, other in zip(
            ("observations", "rewards", "terminations", "truncations"), got[:4], due[:4], strict=True
        ):
            assert_same(one, other, f"{name} of step {t}")
        assert_same_infos(got[4], due[4], f"infos of step {t}")
        done = due[2] | due[3]
        ended += int(done.sum())
        if pool.autoreset_mode is AutoresetMode.DISABLED and done.any():
            mask = done.copy()
            observations, infos = pool.reset(options={"reset_mask": mask})
            expected, expected_infos = reference.reset(options={"reset_mask": mask.copy()})
            assert_same(observations, expected, f"observations of the reset after step {t}")
            assert_same_infos(infos, expected_infos, f"infos of the reset after step {t}")
    return ended


@pytest.mark.parametrize("mode", cases(MODES), ids=lambda mode: mode.value)
@pytest.mark.parametrize(
    "task",
    cases(
        default=[
            "CartPole-v0",
            "MountainCar-v0",
            "CliffWalking-v1",
            "MiniGrid-DoorKey-5x5-v0",
            "HalfCheetah-v4",
        ],
        also=TASKS,
    ),
)
def test_all_results_are_those_of_the_sync_vector_env(task, mode):
    steps = (4 if LONG else 1) * (2 * limit_of(task) + 8)
    pool = pool_of(task, N, autoreset_mode=mode, max_episode_steps=limit_of(task))
    reference = reference_of(task, N, mode)
    try:
        pool.action_space.seed(7)
        assert assert_same_calls(pool, reference, steps, 11, lambda t: pool.action_space.sample()) >= N
        assert assert_same_calls(pool, reference, 5, 2, lambda t: pool.action_space.sample()) >= 0
    finally:
        pool.close()
        reference.close()


@pytest.mark.parametrize(
    "task", cases(default=["CartPole-v0", "MountainCar-v0", "Pendulum-v1", "Blackjack-v1"], also=TASKS)
)
def test_spaces_are_those_of_the_sync_vector_env(task):
    pool, reference = pool_of(task, 2), reference_of(task, 2, AutoresetMode.NEXT_STEP)
    for name in ("observation_space", "action_space"):
        for prefix in ("", "single_"):
            assert getattr(pool, prefix + name) == getattr(reference, prefix + name), prefix + name
    pool.close()
    reference.close()


def test_options_of_resets_and_own_seeds_are_passed_on():
    options = {"low": -0.2, "high": -0.1}
    pool, reference = PoolVectorEnv("CartPole-v1", N), reference_of("CartPole-v1", N, MODES[0])
    for seed in (3, [5, None, 1], None):
        actual, _ = pool.reset(seed=3 if seed is None else seed, options=options)
        expected, _ = reference.reset(seed=3 if seed is None else seed, options=dict(options))
        assert_same(actual[[0, 2]], expected[[0, 2]], f"seed {seed}")
    assert_same(pool.reset()[0][[0, 2]], reference.reset()[0][[0, 2]], "the streams go on")
    assert options == {"low": -0.2, "high": -0.1}
    pool.close()


def test_a_reset_within_an_episode_that_has_ended():
    """In NEXT_STEP the env begins one episode by it, not two."""
    pool, reference = PoolVectorEnv("CartPole-v1", N), reference_of("CartPole-v1", N, MODES[0])
    pool.reset(seed=0)
    reference.reset(seed=0)
    actions = np.ones(N, np.int64)
    while True:
        ended = pool.step(actions)[2]
        reference.step(actions)
        if ended.any():
            break
    for kwargs in ({"options": {"reset_mask": ended}}, {}):
        own = {"options": dict(kwargs["options"])} if kwargs else {}
        assert_same(pool.reset(**kwargs)[0], reference.reset(**own)[0], "after the reset")
    for _ in range(12):
        for one, other in zip(pool.step(actions)[:4], reference.step(actions)[:4], strict=True):
            assert_same(one, other, "after the resets")
    pool.close()
