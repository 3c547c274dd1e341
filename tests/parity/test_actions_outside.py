"""Actions outside of their spaces: each task does with them what its reference does, to the last bit.

Gymnasium's envs take them. Some clip, MuJoCo clamps its controls and charges the action as it is.
"""

import ale_py
import gymnasium
import numpy as np
import pytest
import torch
from cases import cases
from references.reference import gymnasium_env, gymnasium_tasks, specs_of
from torchrl.envs import GymEnv, SerialEnv

from torchrl_pool import list_tasks
from torchrl_pool.testing import assert_same_trajectories

gymnasium.register_envs(ale_py)
ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)

N = 2
CONTINUOUS = [
    task for task in gymnasium_tasks() if any(not spec.categories for spec in specs_of(task, "action"))
]
GAMES = list_tasks("atari")
# Times a bound, and one rounding more: TorchRL's noise, far outside, and where float32 squares overflow.
FACTORS = (1.0, 1.0055562, 3.0, 1e3, 1e6, 1e12, 1e20)

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*:DeprecationWarning:gymnasium",
    "ignore:.*:UserWarning:gymnasium",
    "ignore:overflow encountered:RuntimeWarning",
)


def outside(space, steps, seed=0):
    """[steps, N, *shape]: about half of the elements outside, above and below, at every distance."""
    rng = np.random.default_rng(seed)
    size = (steps, N, *space.shape)
    reach = rng.choice(FACTORS, size) * np.maximum(np.abs(space.low), np.abs(space.high))
    beyond = np.where(rng.random(size) < 0.5, -reach, reach).astype(space.dtype)
    beyond = np.nextafter(beyond, np.sign(beyond) * space.dtype.type(np.inf))
    inside = rng.uniform(space.low, space.high, size).astype(space.dtype)
    return torch.from_numpy(np.where(rng.random(size) < 0.5, beyond, inside))


def assert_same(task, make, steps, **options):
    """Observations, flags, and rewards before they are rounded."""
    actions = iter(outside(make().action_space, steps))
    keys, policy = ["exact_reward"], lambda pool, root: next(actions)
    assert_same_trajectories(
        task, make, num_envs=N, steps=steps, seeds=(5,), info_keys=keys, policy=policy, **options
    )


@pytest.mark.parametrize(
    "task", cases(default=["InvertedDoublePendulum-v5", "MountainCarContinuous-v0"], also=CONTINUOUS)
)
def test_equals_gymnasium(task):
    assert_same(task, lambda: gymnasium_env(task, max_episode_steps=40), 100, max_episode_steps=40)


@pytest.mark.parametrize(
    "task", cases(default=["InvertedPendulum-v5", "MountainCarContinuous-v0"], also=CONTINUOUS)
)
def test_equals_serial_env_of_gym_envs(task, make_pool):
    """One float32 rounding outside, where saturated policies and scalings to [-1, 1] end up."""
    pool, reference = make_pool(task, N), SerialEnv(N, lambda: GymEnv(task))
    assert pool.set_seed(1) == reference.set_seed(1)
    space = pool.action_spec.space
    ours, theirs = pool.reset(), reference.reset()
    for bound, far in ((space.high, torch.inf), (space.low, -torch.inf), (space.high, torch.inf)):
        action = torch.nextafter(bound, torch.full_like(bound, far))
        ours = pool.step(ours.set("action", action.clone()))["next"]
        theirs = reference.step(theirs.set("action", action.clone()))["next"]
        assert torch.equal(ours["observation"], theirs.get("pixels", theirs.get("observation", None)))
        for key in ("reward", "done"):
            assert torch.equal(ours[key], theirs[key]), key
    reference.close()


@pytest.mark.parametrize("task", cases(default=["ALE/MsPacman-v5", "ALE/Pong-v5"], also=GAMES))
def test_joysticks_equal_ales(task):
    """Radii and angles beyond the joystick's, and NumPy's cosines of large angles."""
    options = {"continuous": True, "obs_type": "ram", "repeat_action_probability": 0.25}
    assert_same(task, lambda: gymnasium.make(task, disable_env_checker=True, **options), 25, **options)


@pytest.mark.parametrize(
    "task",
    cases(
        default=[
            "CarRacing-v3",
            "Hopper-v5",
            "HumanoidStandup-v5",
            "InvertedDoublePendulum-v5",
            "Pendulum-v1",
            "Swimmer-v5",
        ],
        also=[*CONTINUOUS, "ALE/Pong-v5", "dm_control/cheetah-run-v0"],
    ),
)
def test_strict_actions_are_refused_before_anything_moves(task, make_pool):
    options = {"continuous": True} if task.startswith("ALE/") else {}
    pool = make_pool(task, N, check_actions="strict", **options)
    root = pool.reset(seed=0)
    before = pool.get_state()
    high = pool.action_spec.space.high
    bad = high.clone()
    bad[1, 0] = torch.nextafter(bad[1, 0], torch.full_like(bad[1, 0], torch.inf))
    for step in (pool.step, pool.step_and_maybe_reset, lambda td: pool.async_step_send(td, range(N))):
        with pytest.raises(ValueError, match=r"'action' of env 1.*: expected a number in \["):
            step(root.clone().set("action", bad))
    assert pool.get_state() == before
    pool.async_step_send(root.set("action", high.clone()), range(N))
    assert pool.async_step_recv(N).shape == (N,)
