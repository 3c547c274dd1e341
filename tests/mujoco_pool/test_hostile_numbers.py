"""Numbers that make no sense in the model: each episode sets one of its arrays to the like of 1e18 or -3.

MuJoCo looks at them where it can; none leads it out of its memory, or on for ever.
"""

from pathlib import Path

import pytest
from processes import printed

import torchrl_pool

MODELS = Path(torchrl_pool._core.__file__).parent / "_plugins" / "dm_control"
PROGRAM = """
import contextlib, faulthandler, re, sys
import mujoco, numpy as np, torch
from torchrl_pool import EnvFailure, PoolEnv

model = mujoco.MjModel.from_xml_path(sys.argv[1])
arrays = {name: getattr(model, name) for name in dir(model) if isinstance(getattr(model, name), np.ndarray)}
sizes = {name: array.size for name, array in arrays.items() if array.dtype.kind == "f" and array.size}
while True:
    try:
        env = PoolEnv("MJCF-v0", 1, num_threads=1, xml_file=sys.argv[1], model_fields=list(sizes))
        break
    except ValueError as error:  # MuJoCo derives it from others
        del sizes[re.search("'([a-z_A-Z0-9]+)'", str(error))[1]]
failures = 0
for name, size in sizes.items():
    for number in (0.0, -1.0, 3.0, -3e9, 1e18, -1e30):  # float32 holds these, too
        for every in (1, 2):
            print(name, number, every, file=sys.stderr, flush=True)
            values = getattr(model, name).flatten().astype(float)
            values[::every] = number
            faulthandler.dump_traceback_later(60, exit=True)
            try:
                root = env.reset(options={"set": {name: values.tolist()}})
                for _ in range(10):
                    root = env.step_and_maybe_reset(env.rand_action(root))[1]
            except EnvFailure:
                failures += 1
faulthandler.cancel_dump_traceback_later()
env.reset()
env.rollout(3)
assert failures
assert len(sizes) > 100
"""


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("model", ["quadruped-escape", "stacker-stack_4"])
def test_hostile_numbers(model):
    printed(PROGRAM, MODELS / f"{model}.xml", timeout=1700)
