"""How much faster a training is whose actors work beside its learner, and how old their weights are.

The programs ``ppo`` and ``impala`` in each architecture, an iteration of each in turn.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from torchrl_pool._bench.alternate import summary
from torchrl_pool._bench.document import machine_line, save
from torchrl_pool._bench.steppers import one_torch_thread
from torchrl_pool._tables import print_table
from torchrl_pool.examples import impala, ppo
from torchrl_pool.examples.results import plot_lags
from torchrl_pool.examples.run import Run

ARCHITECTURES = "synchronous", "cleanba", "asynchronous"
PROGRAMS = {"ppo": ppo.PROGRAM, "impala": impala.PROGRAM}


def begin(program: Any, architecture: str, arguments: list[str], folder: Path) -> Run:
    """A training that has warmed up."""
    options = program.parser().parse_args(["--architecture", architecture, *arguments])
    folder.mkdir()
    run = Run(program.train, program.config_of(options), folder)
    run.iterate()
    run.parts["actors"].rest()
    return run


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--program", choices=PROGRAMS, default="ppo")
    parser.add_argument("--iterations", type=int, default=8, help="of each architecture in a turn")
    parser.add_argument("--turns", type=int, default=5, help="of each architecture")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures to this file")
    parser.add_argument("--plot", type=Path, metavar="FILE.png", help="draw how old weights were")
    parser.add_argument("settings", nargs="*", help="of the program, after --: -- --task HalfCheetah-v5")
    options = parser.parse_args()
    seconds: dict[str, list[float]] = {name: [] for name in ARCHITECTURES}
    lags: dict[str, Counter[int]] = {}
    one_torch_thread()
    with ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        trainings = {}
        for name in ARCHITECTURES:
            trainings[name] = begin(PROGRAMS[options.program], name, options.settings, root / name)
            stack.callback(trainings[name].close)
        for _ in range(options.turns):
            for name, training in trainings.items():
                start = time.perf_counter()
                for _ in range(options.iterations):
                    training.iterate()
                training.parts["actors"].rest()
                seconds[name].append((time.perf_counter() - start) / options.iterations)
        frames = trainings["synchronous"].frames_per_batch
        lags.update({name: training.parts["actors"].lags for name, training in trainings.items()})
    print(machine_line())
    found = {name: summary(one) for name, one in seconds.items()}
    rows = []
    for name, one in found.items():
        mean = sum(lag * count for lag, count in lags[name].items()) / lags[name].total()
        times = found["synchronous"].median / one.median
        speed = f"{frames / one.median:,.0f}"
        rows.append([name, speed, f"{times:.2f}", f"{one.spread:.0%}", f"{mean:.2f}", str(max(lags[name]))])
    print_table(
        ["architecture", "frames/s", "times synchronous", "±", "mean lag", "largest"], rows, numbers=1
    )
    if options.plot:
        plot_lags(lags, options.plot)
    save(
        options.json,
        {name: {"seconds": seconds[name], "lags": dict(lags[name])} for name in ARCHITECTURES},
    )


if __name__ == "__main__":
    main()
