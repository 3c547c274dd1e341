"""Gymnasium-Robotics beside a pool, in a process for NumPy's settings and for Python's -O.

Without asserts, because one of Fetch's fails on newer releases of MuJoCo, whose enumerations equal no number
of NumPy's on their right. So these functions use none themselves.
"""

import logging

import gymnasium

gymnasium.logger.min_level = logging.ERROR
import gymnasium_robotics  # noqa: E402
import mujoco  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
from child import serve  # noqa: E402
from torchrl.envs import GymEnv, SerialEnv  # noqa: E402

from torchrl_pool import PoolEnv  # noqa: E402
from torchrl_pool._plugins.registry import open_config  # noqa: E402

gymnasium.register_envs(gymnasium_robotics)
ENTRIES = ("observation", "achieved_goal", "desired_goal")


def rows(maze_map):
    """The reference's map in our letters."""
    return ["".join(map(str, row)) for row in maze_map]


def reference(task, **options):
    if "maze_map" in options:
        cells = [[int(cell) if cell in "01" else cell for cell in row] for row in options["maze_map"]]
        options = {**options, "maze_map": cells}
    return gymnasium.make(task, disable_env_checker=True, **options)


def registrations():
    """Limits and options of the tasks with Fetch or a maze that run here."""
    found = {}
    for id, spec in gymnasium.registry.items():
        if not str(spec.entry_point).startswith(
            ("gymnasium_robotics.envs.fetch", "gymnasium_robotics.envs.maze")
        ):
            continue
        if id.startswith("AntMaze") and spec.version == 3:  # an older reset, which is not here
            continue
        try:
            gymnasium.make(id, disable_env_checker=True).close()
        except Exception as error:  # those that need mujoco_py
            if "mujoco_py" not in str(error) and "mujoco<3" not in str(error):
                raise
        else:
            options = {name: rows(v) if name == "maze_map" else v for name, v in spec.kwargs.items()}
            found[id] = [spec.max_episode_steps, spec.reward_threshold, options]
    return found


def different_specs(task):
    pool = PoolEnv(task, 2, device="cpu")
    twins = SerialEnv(2, lambda: GymEnv(task))
    kinds = ("observation", "action", "reward", "done")
    return [
        kind for kind in kinds if getattr(pool, f"{kind}_spec") != getattr(twins, f"{kind}_spec").to("cpu")
    ]


class Comparison:
    """Notes where the two differ, as "what: indices", and how often what has happened."""

    def __init__(self):
        self.different, self.counts = {}, {"ended": 0, "terminated": 0, "reached": 0}

    def same(self, what, actual, expected):
        actual, expected = np.atleast_1d(actual.numpy()), np.atleast_1d(np.asarray(expected))
        if actual.dtype != expected.dtype or actual.shape != expected.shape:
            self.different[what] = f"{expected.dtype} {expected.shape}"
            return
        at = np.flatnonzero([a.tobytes() != b.tobytes() for a, b in zip(actual, expected, strict=True)])
        if len(at):
            self.different[what] = sorted({*self.different.get(what, []), *at.tolist()})

    def rows(self, what, td, i, observed, info, keys):
        for entry in ENTRIES:
            self.same(f"{what} {entry}", td[entry][i], observed[entry])
        for key in keys:
            zero = np.zeros_like(td[key][i].numpy())
            self.same(f"{what} {key}", td[key][i], info.get(key, zero))


def compared(task, steps, num_envs=2, seed=0, scale=1.2, options=None, reset_options=None):
    """What differs in random play: entries, infos, rewards and flags; and how often episodes ended.

    Actions reach beyond their bounds.
    """
    options = options or {}
    keys = [spec.name for spec in open_config(task, {}).specs if spec.role == "info"]
    pool = PoolEnv(task, num_envs, device="cpu", info_keys=keys, **options)
    twins = [reference(task, **options) for _ in range(num_envs)]
    found = Comparison()
    root = pool.reset(seed=seed, options=reset_options)
    for i, twin in enumerate(twins):
        found.rows("reset", root, i, *twin.reset(seed=seed + i, options=reset_options), keys)
    for _ in range(steps):
        root["action"] = pool.rand_action()["action"] * scale
        td, following = pool.step_and_maybe_reset(root)
        for i, twin in enumerate(twins):
            observed, reward, terminated, truncated, info = twin.step(root["action"][i].numpy())
            found.rows("step", td["next"], i, observed, info, keys)
            found.same("reward", td["next", "reward"][i], np.float32(reward))
            found.same("terminated", td["next", "terminated"][i], bool(terminated))
            found.same("truncated", td["next", "truncated"][i], bool(truncated))
            found.counts["reached"] += bool(info.get("success", info.get("is_success")))
            found.counts["terminated"] += bool(terminated)
            if terminated or truncated:
                found.counts["ended"] += 1
                found.rows("reset", following, i, *twin.reset(), keys)
        root = following
    missing = set(info) - set(keys) - {"TimeLimit.truncated"}
    pool.close()
    return [found.different, found.counts, sorted(missing)]


def differing_pixels(task):
    """Of pictures at the beginning of an episode and ten steps later."""
    options = {"width": 120, "height": 90}
    pool = PoolEnv(task, 1, device="cpu", **options)
    twin = reference(task, render_mode="rgb_array", **options)
    root = pool.reset(seed=3)
    twin.reset(seed=3)
    if ant := getattr(twin.unwrapped, "ant_env", None):  # it looks at what it happens to see first
        twin.render()
        initial = mujoco.MjData(ant.model)
        mujoco.mj_forward(ant.model, initial)
        ant.mujoco_renderer.viewer.cam.lookat[:] = np.median(initial.geom_xpos, axis=0)
    differing = []
    for _ in range(2):
        expected = torch.from_numpy(twin.render().copy())
        differing.append([int((pool.render()[0] != expected).any(-1).sum()), len(expected.unique()) > 20])
        for _ in range(10):
            action = pool.rand_action()["action"]
            root = pool.step(root.set("action", action))["next"]
            twin.step(action[0].numpy())
    pool.close()
    return differing


if __name__ == "__main__":
    serve(globals())
