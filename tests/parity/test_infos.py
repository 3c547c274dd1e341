"""The dtypes of info entries, of every task that has some: those of Gymnasium's info dicts."""

import ale_py
import gymnasium
import numpy as np
import pytest
from cases import cases
from references.reference import gymnasium_env, gymnasium_tasks, specs_of

gymnasium.register_envs(ale_py)
ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)

# Of the Atari games, which are one program with many cartridges, one.
TASKS = [*gymnasium_tasks(), "ALE/Pong-v5"]
RARE = {"lap_finished"}  # which Gymnasium tells where an episode terminates alone: see test_box2d.py
OWN = {"ALE/Pong-v5": {"life_lost", "raw_reward", "ram"}}  # which Gymnasium has not

pytestmark = pytest.mark.filterwarnings("ignore:.*:DeprecationWarning:gymnasium", "ignore:.*:UserWarning")


def infos(task):
    """Gymnasium's info dicts of a reset and of some steps."""
    env = gymnasium_env(task)
    env.action_space.seed(0)
    yield env.reset(seed=0)[1]
    for _ in range(3):
        yield env.step(env.action_space.sample())[-1]
    env.close()


@pytest.mark.parametrize("task", cases(default=["CartPole-v0", "MountainCar-v0", "Pendulum-v1"], also=TASKS))
def test_dtypes_are_gymnasiums(task):
    ours = {spec.name: spec.dtype for spec in specs_of(task, "info")}
    first, *others = infos(task)
    for name, dtype in ours.items():
        if name in RARE or name in OWN.get(task, ()):
            continue
        found = {str(np.asarray(info[name]).dtype) for info in others}
        assert found == {dtype}, name
        # At a reset Gymnasium's toy texts tell a probability as the int 1, afterwards as a float.
        if name in first and name != "prob":
            assert str(np.asarray(first[name]).dtype) == dtype, name
