"""MuJoCo alone, in a process of its own: the Python package ``mujoco`` would slow the library down.

``python bare_mujoco.py LIBRARY MODEL FRAME_SKIP MAX_EPISODE_STEPS NOISE COORDINATE LOWEST HIGHEST NUM_ENVS
NUM_THREADS``, where the library is built from ``bare_mujoco.cc``, which says what the numbers mean. Reads
lines ``STEPS`` and answers each when every env has made so many steps.
"""

from __future__ import annotations

import ctypes
import sys


def main() -> None:
    library, model, frame_skip, max_steps, noise, coordinate, lowest, highest, envs, threads = sys.argv[1:]
    loop = ctypes.CDLL(library)
    message = ctypes.create_string_buffer(1000)
    opened = loop.bare_mujoco_open(
        model.encode(),
        int(frame_skip),
        int(max_steps),
        ctypes.c_double(float(noise)),
        int(coordinate),
        ctypes.c_double(float(lowest)),
        ctypes.c_double(float(highest)),
        int(envs),
        int(threads),
        message,
        len(message),
    )
    if not opened:
        sys.exit(message.value.decode())
    print("ready", flush=True)
    for line in sys.stdin:
        loop.bare_mujoco_run(ctypes.c_long(int(line)))
        print("done", flush=True)


if __name__ == "__main__":
    main()
