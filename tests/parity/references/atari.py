from typing import ClassVar

import ale_py
import gymnasium
from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation
from torchrl.envs import GymWrapper

from references.reference import Reference

gymnasium.register_envs(ale_py)
ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)

# AtariPreprocessing refuses no-ops where the game's own actions do not begin with one.
WITHOUT_NOOP = ("ALE/Backgammon-v5", "ALE/VideoCheckers-v5")
INFO = ("lives", "frame_number", "episode_frame_number")
WRAPPER_OPTIONS = {
    "noop_max",
    "frame_skip",
    "screen_size",
    "terminal_on_life_loss",
    "grayscale_obs",
    "scale_obs",
}


class WithRAM(gymnasium.Wrapper):
    """Whose infos have the console's memory, which shows more of a game than its picture."""

    def reset(self, **kwargs):
        observation, info = self.env.reset(**kwargs)
        return observation, {**info, "ram": self.unwrapped.ale.getRAM()}

    def step(self, action):
        *results, info = self.env.step(action)
        return *results, {**info, "ram": self.unwrapped.ale.getRAM()}


class Atari(Reference):
    """Gymnasium's env and wrappers; rewards, flags, lives, frame numbers, RAM and every pixel are exact.

    ale-py's tests of its vector env allow differences of up to 2 per pixel.
    """

    family = "atari"
    renamed: ClassVar = {"game": None, "frameskip": "frame_skip"}
    default: ClassVar = ["ALE/MsPacman-v5", "ALE/Pong-v5", "ALE/Zaxxon-v5"]

    def ends(self, task):
        return False  # so soon

    def ids(self):
        return {id for id in gymnasium.registry if id.startswith("ALE/")}

    def make(self, task, *, stack_size=4, max_episode_steps=None, **options):
        wrapper = {k: v for k, v in options.items() if k in WRAPPER_OPTIONS}
        if task in WITHOUT_NOOP:
            wrapper["noop_max"] = 0
        rest = {k: v for k, v in options.items() if k not in WRAPPER_OPTIONS}
        env = gymnasium.make(task, frameskip=1, disable_env_checker=True, **rest)
        env = FrameStackObservation(AtariPreprocessing(env, **wrapper), stack_size)
        return WithRAM(
            env if max_episode_steps is None else gymnasium.wrappers.TimeLimit(env, max_episode_steps)
        )

    def torchrl(self, task, *, categorical_action_encoding=False, **options):
        return GymWrapper(self.make(task, **options), categorical_action_encoding=categorical_action_encoding)

    def infos(self, task):
        return (*INFO, "ram")

    def compare(self, task, steps, **options):
        return super().compare(task, steps, **({"noop_max": 0} if task in WITHOUT_NOOP else {}), **options)
