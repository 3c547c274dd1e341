"""The compiled extension against Gymnasium, where torch is not installed: for Pythons that have no torch yet.

``python tests/without_torch.py`` needs the package, installed with ``--no-deps``, NumPy, ale-py and
``gymnasium[mujoco]``.
"""

from __future__ import annotations

import importlib.util
import sys
import types

import gymnasium
import numpy as np

# The package without its __init__, which imports torch.
package = types.ModuleType("torchrl_pool")
spec = importlib.util.find_spec("torchrl_pool")
package.__path__ = spec.submodule_search_locations
sys.modules["torchrl_pool"] = package

from torchrl_pool import _core  # noqa: E402
from torchrl_pool._plugins import registry  # noqa: E402

NUM_ENVS, NUM_STEPS = 3, 300
LAYOUT = _core.LayoutOptions(
    info_keys=[],
    one_hot=False,
    obs_dtype=None,
    from_pixels=False,
    pixels_only=True,
    refuse_nan=False,
    strict_actions=False,
)


class Pool:
    """What a PoolEnv is, with NumPy's arrays."""

    def __init__(self, task: str) -> None:
        config = registry.open_config(task, {})
        self.pool = _core.Pool(
            configs=[config] * NUM_ENVS,
            max_episode_steps=[registry.task_info(task).max_episode_steps or 0] * NUM_ENVS,
            num_threads=2,
            thread_affinity=[],
            layout=LAYOUT,
            step_timeout=None,
        )
        self.outputs, self.calls = config.outputs(LAYOUT), _core.Calls()

    def reset(self, seed: int) -> np.ndarray:
        out = self._arrays()
        given = [[seed + i] for i in range(NUM_ENVS)], [], 0
        self.calls.reset(self.pool, (out, self._roots(out)), None, given)
        return out["observation"]

    def step(self, actions: np.ndarray) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """What an env gives, and the observations that follow."""
        out, root = self._arrays(), self._arrays()
        to = out, [o.ctypes.data for o in out.values()]
        inputs, following = (actions, [actions.ctypes.data]), (root, self._roots(root))
        results = self.calls.step_and_reset(self.pool, inputs, to, following)
        assert results is not None
        return out, root if results[2] else out

    def _roots(self, arrays: dict[str, np.ndarray]) -> list[int]:
        """Addresses of all columns; rewards are not wanted."""
        return [0 if s.role == "reward" else arrays[s.name].ctypes.data for s in self.outputs]

    def _arrays(self) -> dict[str, np.ndarray]:
        return {s.name: np.zeros((NUM_ENVS, *s.shape), s.dtype) for s in self.outputs}


def check(task: str) -> None:
    """Raises AssertionError where a bit differs."""
    pool = Pool(task)
    envs = [gymnasium.make(task, disable_env_checker=True) for _ in range(NUM_ENVS)]
    expected = [env.reset(seed=7 + i)[0] for i, env in enumerate(envs)]
    observation = pool.reset(7)
    envs[0].action_space.seed(0)
    for _ in range(NUM_STEPS):
        np.testing.assert_array_equal(observation, np.reshape(expected, observation.shape))
        actions = np.stack([np.asarray(envs[0].action_space.sample()) for _ in envs])
        out, root = pool.step(actions)
        for i, env in enumerate(envs):
            expected[i], reward, terminated, truncated, _ = env.step(actions[i])
            assert out["reward"][i, 0] == np.float32(reward)
            assert (out["terminated"][i, 0], out["truncated"][i, 0]) == (terminated, truncated)
            if terminated or truncated:
                expected[i] = env.reset()[0]
        observation = root["observation"]
    pool.pool.close()


def main() -> None:
    for task in ("CartPole-v1", "Pendulum-v1", "FrozenLake-v1", "HalfCheetah-v5", "Hopper-v5"):
        check(task)
        print(f"{task}: {NUM_ENVS} envs, {NUM_STEPS} steps, equal in every bit")
    assert "torch" not in sys.modules


if __name__ == "__main__":
    main()
