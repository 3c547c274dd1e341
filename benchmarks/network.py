"""What a network costs a training with actors on other machines: frames/s by delay and loss, bytes.

Three hosts in namespaces of their own (``hosts.py``): the learner's, and two with an actor each.
"""

from __future__ import annotations

import argparse
import csv
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from ray_hosts import RayHosts

from torchrl_pool._bench.document import save
from torchrl_pool._tables import print_table

PROGRAMS = {
    "distributed_ppo": ["--task", "CartPole-v1"],
    "distributed_impala": ["--task", "CartPole-v1"],
}
CONDITIONS = [
    (0, 0.0),
    (2, 0.0),
    (10, 0.0),
    (50, 0.0),
    (50, 0.01),
    (100, 0.0),
    (0, 0.0),
]  # milliseconds, share lost


class Learner:
    """A training on the head of a cluster, and what its curve tells.

    Args:
        hosts: the cluster.
        program: of ``torchrl_pool.examples``.
        folder: for what it leaves.
    """

    def __init__(self, hosts: RayHosts, program: str, folder: Path) -> None:
        more = ["--quiet", "--evaluate", "0", "--total-frames", str(10**9), "--output", str(folder)]
        self._folder = folder
        self.process = hosts.learner(program, *PROGRAMS[program], *more, output=folder / "output.txt")

    def rows(self) -> list[dict[str, str]]:
        found = list(self._folder.glob("*/curve.csv"))
        if not found:
            return []
        with found[0].open() as file:
            return [row for row in csv.DictReader(file) if None not in row.values()]

    def wait_for(self, rows: int, seconds: float) -> int:
        """Waits for so many rows, but at most so long; returns how many there are."""
        end = time.monotonic() + seconds
        while (found := len(self.rows())) < rows and time.monotonic() < end:
            if self.process.poll() is not None:
                raise RuntimeError((self._folder / "output.txt").read_text())
            time.sleep(0.02)
        return found


def measure(program: str, seconds: float) -> list[dict[str, Any]]:
    """Trains on under one condition after the other, each for so long."""
    results = []
    with RayHosts(3, cpus=1) as hosts, tempfile.TemporaryDirectory() as folder:
        learner = Learner(hosts, program, Path(folder))
        assert learner.wait_for(5, 120)
        for delay, loss in CONDITIONS:
            hosts.set_link(0, delay / 2000, loss)
            first = learner.wait_for(len(learner.rows()) + 2, 10)
            before, begin = hosts.counted()[0], time.monotonic()
            time.sleep(seconds)
            after, rows = hosts.counted()[0], learner.rows()[first:]
            frames = int(float(rows[-1]["frames"])) - int(float(rows[0]["frames"])) if len(rows) > 1 else 0
            batch = frames // max(len(rows) - 1, 1)
            speeds = [float(row["steps_per_second"]) for row in rows]
            results.append(
                {
                    "program": program,
                    "round trip": delay,
                    "loss": loss,
                    "frames per batch": batch,
                    "batches": len(rows),
                    "frames per second": statistics.median(speeds),
                    "received per batch": (after["delivered"] - before["delivered"]) / len(rows),
                    "sent per batch": (after["sent"] - before["sent"]) / len(rows),
                    "seconds": time.monotonic() - begin,
                }
            )
        learner.process.kill()
        learner.process.wait()
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", nargs="+", choices=PROGRAMS, default=list(PROGRAMS))
    parser.add_argument("--seconds", type=float, default=5.0, help="of each condition")
    parser.add_argument("--json", type=Path)
    parsed = parser.parse_args()
    results = [one for program in parsed.programs for one in measure(program, parsed.seconds)]
    head = ["program", "round trip", "loss", "batches", "frames/s", "s per batch", "KB received", "KB sent"]
    rows = [
        [
            one["program"],
            f"{one['round trip']} ms",
            f"{one['loss']:.0%}",
            str(one["batches"]),
            f"{one['frames per second']:,.0f}",
            f"{one['frames per batch'] / one['frames per second']:.3f}",
            f"{one['received per batch'] / 1e3:,.1f}",
            f"{one['sent per batch'] / 1e3:,.1f}",
        ]
        for one in results
    ]
    print_table(head, rows, numbers=5)
    save(parsed.json, results)


if __name__ == "__main__":
    main()
