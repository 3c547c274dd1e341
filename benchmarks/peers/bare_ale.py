"""The bare emulator of ale-py's wheel, in a process of its own: no pictures, no rewards.

``python bare_ale.py GAME`` reads lines ``STEPS`` and answers each when it has called ``act`` four times as
often.
"""

from __future__ import annotations

import sys

import ale_py
import numpy as np
from ale_py import roms


def main() -> None:
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    ale = ale_py.ALEInterface()
    ale.setFloat("repeat_action_probability", 0.25)
    rom = roms.get_rom_path(sys.argv[1])
    assert rom is not None
    ale.loadROM(rom)
    ale.reset_game()
    legal = ale.getMinimalActionSet()
    actions = [legal[i] for i in np.random.default_rng(0).integers(len(legal), size=4096)]
    act = ale.act
    print("ready", flush=True)
    for line in sys.stdin:
        for i in range(int(line)):
            action = actions[i % 4096]
            act(action)
            act(action)
            act(action)
            act(action)
            if ale.game_over():
                ale.reset_game()
        print("done", flush=True)


if __name__ == "__main__":
    main()
