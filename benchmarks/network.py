"""What a network costs a training with actors on other machines: frames/s, policy lag, bytes.

Three hosts in namespaces of their own (``hosts``): the learner's, and two that share the actors. With
more actors batches are larger: each has 16 envs, as with the default of two. A condition is a round trip in
milliseconds, and the share of packets that is lost.

    python benchmarks/network.py --programs impala --actors 2 4 8 --conditions 100
"""

from __future__ import annotations

import argparse
import csv
import signal
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from hosts.ray_nodes import RayHosts
from throughput import save

from torchrl_pool._tables import print_table

ENVS = 16  # of an actor
PROGRAMS = {
    "ppo": ("distributed_ppo", {"--frames-per-batch": 1024}, []),
    "impala": ("distributed_impala", {}, []),
    "impala-asynchronous": ("distributed_impala", {}, ["--architecture", "asynchronous"]),
}
"""By name: the module, its options that grow with the number of actors, and others."""


class Learner:
    """A training on the head of a cluster, and what its curve tells.

    Args:
        hosts: the cluster.
        name: of :data:`PROGRAMS`.
        actors: how many.
        folder: for what it leaves.
    """

    def __init__(self, hosts: RayHosts, name: str, actors: int, folder: Path) -> None:
        program, growing, options = PROGRAMS[name]
        sizes = {"--actors": 1, "--num-envs": ENVS, **growing}
        options = [*options, *(word for key, size in sizes.items() for word in (key, str(size * actors)))]
        self._hosts, self._folder = hosts, folder
        run = ["--quiet", "--evaluate", "0", "--total-frames", str(10**9)]
        output = ["--task", "CartPole-v1", "--output", str(folder)]
        self.process = hosts.learner(program, *options, *run, *output, output=folder / "output.txt")

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

    def stop(self) -> float:
        """Ends it; returns the seconds that it has learned for, per batch."""
        self._hosts.send_signal(self.process, signal.SIGTERM)
        if self.process.wait(120):
            raise RuntimeError((self._folder / "output.txt").read_text())
        rows = [{name: float(value) for name, value in row.items()} for row in self.rows()]
        waited = sum(row["collecting_seconds"] for row in rows[1:])  # the first one warms up
        return (rows[-1]["seconds"] - rows[0]["seconds"] - waited) / (len(rows) - 1)


def measure(
    name: str, actors: int, conditions: list[tuple[float, float]], seconds: float
) -> list[dict[str, Any]]:
    """Trains on under one condition after the other, each for so long."""
    results = []
    with RayHosts(3, cpus=(actors + 1) // 2) as hosts, tempfile.TemporaryDirectory() as folder:
        learner = Learner(hosts, name, actors, Path(folder))
        assert learner.wait_for(5, 120) >= 5
        for delay, loss in conditions:
            hosts.set_link(0, delay / 2000, loss)
            first = learner.wait_for(len(learner.rows()) + 2, 10)
            before, begin = hosts.counted()[0], time.monotonic()
            time.sleep(seconds)
            after, rows = hosts.counted()[0], learner.rows()[first:]
            batch = int(float(rows[1]["frames"])) - int(float(rows[0]["frames"]))
            results.append(
                {
                    "program": name,
                    "actors": actors,
                    "round trip": delay,
                    "loss": loss,
                    "frames per batch": batch,
                    "batches": len(rows),
                    "frames per second": statistics.median(float(row["steps_per_second"]) for row in rows),
                    "mean lag": statistics.fmean(float(row["lag"]) for row in rows),
                    "largest lag": max(int(row["largest_lag"]) for row in rows),
                    "received per batch": (after["delivered"] - before["delivered"]) / len(rows),
                    "sent per batch": (after["sent"] - before["sent"]) / len(rows),
                    "seconds": time.monotonic() - begin,
                }
            )
        learning = learner.stop()
        for one in results:
            one["learning"] = learning
    return results


def condition(text: str) -> tuple[float, float]:
    delay, _, loss = text.partition(":")
    return float(delay), float(loss or 0)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--programs", nargs="+", choices=PROGRAMS, default=list(PROGRAMS))
    parser.add_argument("--actors", nargs="+", type=int, default=[2])
    parser.add_argument(
        "--conditions",
        nargs="+",
        type=condition,
        metavar="MS[:SHARE]",
        default=[condition(one) for one in ("0", "2", "10", "50", "50:0.01", "100", "0")],
    )
    parser.add_argument("--seconds", type=float, default=5.0, help="of each condition")
    parser.add_argument("--json", type=Path)
    parsed = parser.parse_args()
    results = [
        one
        for name in parsed.programs
        for actors in parsed.actors
        for one in measure(name, actors, parsed.conditions, parsed.seconds)
    ]
    head = ["program", "actors", "round trip", "loss", "frames/s", "s per batch", "of it learning"]
    rows = [
        [
            one["program"],
            str(one["actors"]),
            f"{one['round trip']:g} ms",
            f"{one['loss']:.0%}",
            f"{one['frames per second']:,.0f}",
            f"{one['frames per batch'] / one['frames per second']:.3f}",
            f"{one['learning']:.3f}",
            f"{one['mean lag']:.2f}",
            str(one["largest lag"]),
            f"{one['received per batch'] / one['frames per batch']:,.0f}",
            f"{one['sent per batch'] / one['actors'] / 1e3:,.1f}",
        ]
        for one in results
    ]
    lags_and_bytes = ["mean lag", "largest lag", "B received per step", "KB sent per actor and batch"]
    print_table([*head, *lags_and_bytes], rows, numbers=9)
    save(parsed.json, results)


if __name__ == "__main__":
    main()
