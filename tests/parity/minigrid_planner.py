"""Where to go next in one of MiniGrid's or BabyAI's own envs, so that episodes end with a reward."""

import contextlib
import io
from collections import deque

from minigrid.core.constants import DIR_TO_VEC
from minigrid.core.world_object import Ball, Box, Door, Goal, Key
from minigrid.utils.baby_ai_bot import BabyAIBot

LEFT, RIGHT, FORWARD, PICKUP, DROP, TOGGLE, DONE = range(7)


class Planner:
    """Gives actions for one env: BabyAI's bot, or else a search for what the task is about."""

    def __init__(self, env):
        self._env = env.unwrapped
        self._is_level = hasattr(self._env, "gen_mission")
        self._bot = self._last = None

    def begin(self):
        """To be called after each reset."""
        self._last = None
        self._bot = BabyAIBot(self._env) if self._is_level else None

    def next_action(self):
        """None: it does not know."""
        if not self._is_level:
            return self._searched()
        if self._bot is None:
            return None
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                return int(self._bot.replan(self._last))
        except Exception:  # it gives up, with errors of many types
            self._bot = None
            return None

    def done(self, planned, action):
        """What was done in the end. The bot may think about surprises forever: it then leaves the episode."""
        self._last = action
        if planned != action:
            self._bot = None

    def _searched(self):
        env = self._env
        things = [cell for cell in env.grid.grid if cell is not None]
        doors = [thing for thing in things if isinstance(thing, Door)]
        locked = [door for door in doors if door.is_locked]
        held = env.carrying
        match type(env).__name__:
            case "FetchEnv":
                return self._reach(lambda c, p: like(c, env.targetType, env.targetColor), PICKUP)
            case "GoToDoorEnv" | "GoToObjectEnv":
                return self._reach(lambda c, p: p == tuple(env.target_pos), DONE)
            case "PutNearEnv" if held is None:
                return self._reach(lambda c, p: like(c, env.move_type, env.moveColor), PICKUP)
            case "PutNearEnv":
                near = env.target_pos
                return self._reach(
                    lambda c, p: c is None and max(abs(p[0] - near[0]), abs(p[1] - near[1])) <= 1, DROP
                )
            case "RedBlueDoorEnv":
                door = env.blue_door if env.red_door.is_open else env.red_door
                return self._reach(lambda c, p: c is door, TOGGLE)
            case "MemoryEnv":
                return self._reach(lambda c, p: p == tuple(env.success_pos), FORWARD)
        if locked and isinstance(held, Key):
            mine = [door for door in locked if door.color == held.color]
            return self._reach(lambda c, p: c in mine, TOGGLE)
        goal = getattr(env, "obj", None)
        if held is not None:
            return self._reach(lambda c, p: c is None, DROP)
        wanted = (
            lambda c, p: isinstance(c, Goal),
            lambda c, p: c is not None and c is goal,
        )
        for is_wanted, action in zip(wanted, (FORWARD, PICKUP), strict=True):
            found = self._reach(is_wanted, action)
            if found is not None:
                return found
        colors = {door.color for door in locked}
        for is_wanted, action in (
            (lambda c, p: isinstance(c, Key) and c.color in colors, PICKUP),
            (lambda c, p: isinstance(c, Box), TOGGLE),
            (lambda c, p: isinstance(c, Ball), PICKUP),
        ):
            found = self._reach(is_wanted, action)
            if found is not None:
                return found
        return None

    def _reach(self, is_wanted, action):
        """The first action towards facing a cell that is wanted; ``action`` once it is faced."""
        env = self._env
        start = (int(env.agent_pos[0]), int(env.agent_pos[1]), int(env.agent_dir))
        seen, queue = {start}, deque([(start, None)])
        while queue:
            (x, y, direction), first = queue.popleft()
            front = (x + int(DIR_TO_VEC[direction][0]), y + int(DIR_TO_VEC[direction][1]))
            if not (0 <= front[0] < env.width and 0 <= front[1] < env.height):
                continue  # out of a door at the edge
            cell = env.grid.get(*front)
            if is_wanted(cell, front):
                return action if first is None else first
            steps = [
                (LEFT, (x, y, (direction - 1) % 4)),
                (RIGHT, (x, y, (direction + 1) % 4)),
            ]
            if isinstance(cell, Door) and not cell.is_open:
                if not cell.is_locked or like(env.carrying, "key", cell.color):
                    steps.append((TOGGLE, (*front, direction)))
            elif cell is None or (cell.can_overlap() and cell.type != "lava"):
                steps.append((FORWARD, (*front, direction)))
            for step, place in steps:
                if place not in seen:
                    seen.add(place)
                    queue.append((place, step if first is None else first))
        return None


def like(thing, kind, color):
    return thing is not None and (thing.type, thing.color) == (kind, color)
