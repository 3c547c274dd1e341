"""What the tasks of each family are compared with."""

from references.atari import Atari
from references.box2d import Box2D
from references.classic import Classic
from references.minigrid import MiniGrid
from references.mujoco import MuJoCo
from references.toy_text import ToyText

REFERENCES = {one.family: one for one in (Atari(), Box2D(), Classic(), MiniGrid(), MuJoCo(), ToyText())}
