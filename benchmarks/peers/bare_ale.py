"""The bare emulator of ale-py's wheel, in a process of its own; driven by ``atari.py`` through pipes.

Reads lines ``<game> <calls>`` and answers each with seconds per call of ``act`` four times over.
"""

from __future__ import annotations

import sys
import time

import ale_py
import numpy as np
from ale_py import roms


def main() -> None:
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    emulators: dict[str, tuple[ale_py.ALEInterface, list[ale_py.Action]]] = {}
    for line in sys.stdin:
        game, calls = line.split()
        if game not in emulators:
            ale = ale_py.ALEInterface()
            ale.setFloat("repeat_action_probability", 0.25)
            ale.loadROM(roms.get_rom_path(game))
            ale.reset_game()
            actions = ale.getMinimalActionSet()
            chosen = np.random.default_rng(0).integers(len(actions), size=4096)
            emulators[game] = ale, [actions[i] for i in chosen]
        ale, actions = emulators[game]
        act = ale.act
        start = time.perf_counter()
        for i in range(int(calls)):
            action = actions[i % 4096]
            act(action)
            act(action)
            act(action)
            act(action)
            if ale.game_over():
                ale.reset_game()
        print((time.perf_counter() - start) / int(calls), flush=True)


if __name__ == "__main__":
    main()
