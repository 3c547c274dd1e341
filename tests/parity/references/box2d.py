from typing import ClassVar

import pytest
from torchrl.envs import GymEnv, RenameTransform, TransformedEnv

from references.reference import Reference


class Box2D(Reference):
    """By random actions; test_box2d.py has players that land, arrive and drive."""

    family = "box2d"
    entry_point = "gymnasium.envs.box2d"
    default: ClassVar = ["BipedalWalker-v3", "LunarLanderContinuous-v3"]

    def steps(self, task):
        return 10 if "Car" in task else 200

    def ends(self, task):
        return "Lunar" in task

    def ids(self):
        return {id for id in super().ids() if any(word in id for word in ("Lunar", "Walker", "Car"))}

    def torchrl(self, task, **options):
        pytest.importorskip(
            "Box2D", reason="there are wheels of box2d for CPython 3.11 to 3.13 on x86-64 alone"
        )
        env = GymEnv(task, **options)
        # GymEnv has a name of its own for an observation that is a picture.
        return TransformedEnv(env, RenameTransform(["pixels"], ["observation"])) if "Car" in task else env

    def infos(self, task):
        return ()  # a race alone has one, at its end
