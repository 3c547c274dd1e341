"""Saved states with fields of zeros, ones and NaN, of every family.

Each is refused, and then the env is as it was, or it is taken, and then the env can be stepped, drawn and
reset within a time limit, whatever comes of it.
"""

import json
import math
import struct

import pytest
from cases import LONG, cases
from own_tasks import ONE_OF_EACH_KIND
from processes import printed

from torchrl_pool import PoolEnv

PROGRAM = """
import faulthandler, json, random, struct, sys
import torch
from torchrl_pool import EnvFailure, PoolEnv, task_info

torch.set_num_threads(1)
task, options, most = sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3])
info = task_info(task)
draws = info.can_render and info.family not in ("dm_control", "mujoco", "robotics")  # which need OpenGL
rng = random.Random(0)
WORDS = [bytes(8), bytes([255] * 8), struct.pack("=q", 1), struct.pack("=2i", 1, 1), struct.pack("=d", 1.0),
         struct.pack("=2f", 1, 1), struct.pack("=d", float("nan")), struct.pack("=d", 1e300)]


def damaged(state):
    "States with fields of 4 and 8 bytes, and longer ones, that are each of the words over and over."
    begin, end = 20 + 8 + len(task), len(state)  # from the number of steps on
    near = [*range(begin, min(begin + 256, end), 4), *range(max(begin, end - 256), end, 4)]
    places = near + [rng.randrange(begin, end, 4) for _ in near]
    spans = [(at, at + size) for at in places for size in (4, 8, 32, 624 * 4)]
    always = [(begin, begin + 8), (begin, end), (begin + 8, end), (begin + 16, end)]
    for first, last in always + rng.sample(spans, min(most, len(spans))):
        last = min(last, end)
        for word in WORDS:
            field = (word * ((last - first) // 8 + 1))[: last - first]
            yield state[:first] + field + state[last:], f"{first} to {last} of {end}: {word}"


def step(count):
    global root
    for _ in range(count):
        root = env.step_and_maybe_reset(env.rand_action(root))[1]


rewards = [] if task.startswith(("mpe2/", "sisl/")) else ["episode_reward"]  # there each group has its own
env = PoolEnv(task, 1, seed=0, num_threads=1, info_keys=["step_count", *rewards], **options)
torch.manual_seed(0)
root = env.reset()
step(3)
(good,) = env.get_state()
taken = refused = 0
for state, what in damaged(good):
    print(what, file=sys.stderr, flush=True)
    faulthandler.dump_traceback_later(60, exit=True)
    try:
        env.set_state(state)
    except (ValueError, RuntimeError):
        assert env.get_state() == [good]
        refused += 1
        continue
    taken += 1
    try:
        step(10)
        if draws:
            env.render()
    except EnvFailure:
        pass
    try:
        root = env.reset()
    except EnvFailure:
        root = env.reset()  # of another simulator
    try:
        step(10)
    except EnvFailure:
        pass
    env.set_state(good)
    assert env.get_state() == [good]
faulthandler.cancel_dump_traceback_later()
env.reset()
env.rollout(3)
env.close()
print(json.dumps([taken, refused]))
"""

MJCF = {
    "randomize": ["body_mass:pole *= uniform(0.9, 1.1)"],
    "action_delay": [0, 3],
    "kp": [1.0],
}
TASKS = {task: (task, {}) for task in ONE_OF_EACH_KIND}
TASKS["MJCF-v0, all that it draws"] = ("MJCF-v0", MJCF)
TASKS["ALE/Pong-v5, as ale_vector"] = ("ALE/Pong-v5", {"dialect": "ale_vector"})


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "name",
    cases(
        default=[
            "LunarLanderContinuous-v3",
            "Pendulum-v1",
            "PointMaze_UMazeDense-v3",
            "Taxi-v4",
            "dm_control/walker-walk-v0",
            "MJCF-v0, all that it draws",
        ],
        also=TASKS,
    ),
)
def test_damaged_states(name):
    task, options = TASKS[name]
    said = printed(PROGRAM, task, json.dumps(options), 300 if LONG else 12, timeout=1700)
    taken, refused = json.loads(said)
    assert taken
    assert refused


@pytest.mark.parametrize("task", ["BipedalWalker-v3", "CarRacing-v3", "sisl/multiwalker_v9"])
@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_actions_that_no_step_takes(task, number):
    """Box2D's episodes are played again from their actions: each of these could take seconds."""
    env = PoolEnv(task, 1)
    root = env.rand_action(env.reset())
    root[env.action_keys[0]].fill_(0.375)
    env.step(root)
    (state,) = env.get_state()
    known, other = struct.pack("=f", 0.375), struct.pack("=f", number)
    assert known in state
    with pytest.raises(ValueError, match="an action is not finite"):
        env.set_state(state.replace(known, other))
    assert env.get_state() == [state]
