"""Trainings for a night: killed at any time, they go on; memory and descriptors stay flat.

    python benchmarks/night.py --minutes 480 --output night

Each training has its share of the time. In the first half of it, ``--kills`` times, a process of it gets
SIGKILL, once while it writes a checkpoint; it is started again with ``--resume``. Checked are:

- resources: in the undisturbed second half, memory, descriptors and threads do not grow;
- where the program promises it: batches that were lost with a kill and made again are equal, bit for bit;
- no traceback is printed, whatever ends is started again, and none goes ten minutes without a batch.

The exit status says whether all held; ``resources.csv`` and ``output.txt`` in each folder say more.
"""

from __future__ import annotations

import argparse
import csv
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torchrl_pool._bench.document import save
from torchrl_pool._tables import print_table

TRAININGS = {
    "impala-pong": ("impala", "--task ALE/Pong-v5", True),
    "appo-pong": ("appo", "--task ALE/Pong-v5", False),
    "ppo-breakout": ("ppo", "--task ALE/Breakout-v5", True),
    "remote-impala-cartpole": ("distributed_impala", "--task CartPole-v1", False),
}
"""By name: the program, its options, and whether a killed training's batches come again bit for bit."""
FOREVER = str(10**12)
HANGS = 600.0  # seconds without a batch
TIMES = {
    "seconds",
    "steps_per_second",
    "collecting_seconds",
}  # of a curve's columns, what no promise is about
Row = dict[str, str]


@dataclass
class Night:
    """One training, its parts and its ends.

    Args:
        program: of ``torchrl_pool.examples``.
        options: its own.
        is_exact: whether batches that are made again are equal.
        folder: for all that it leaves.
        checkpoint_seconds: between two checkpoints.
    """

    program: str
    options: list[str]
    is_exact: bool
    folder: Path
    checkpoint_seconds: float
    chance: random.Random = field(default_factory=lambda: random.Random(0))
    faults: list[str] = field(default_factory=list)
    samples: list[dict[str, float]] = field(default_factory=list)
    files: list[Counter[str]] = field(default_factory=list)  # what descriptors are of, at each sample
    batches_before: int = 0  # in the curve, when the process began
    kills: int = 0
    ends: int = 0
    made_again: int = 0

    def run(self, seconds: float, kills: int) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        begin = time.monotonic()
        due = sorted(self.chance.uniform(0.1, 0.5) * seconds for _ in range(kills))
        with (self.folder / "output.txt").open("w") as output:
            process, lost = self._start(output), list[Row]()
            while (passed := time.monotonic() - begin) < seconds:
                time.sleep(1.0)
                if process.poll() is not None:
                    self.ends += 1
                    self.made_again += self._compare(lost)
                    lost = self._rows()
                    process = self._start(output)
                    continue
                self._sample(process.pid, passed)
                if self._stands_since(passed) > HANGS:
                    self.faults.append(f"no batch in {HANGS:g} s, {passed:.0f} s after the begin")
                    process.kill()
                    continue
                in_save = self.kills > 0 or self._saves()  # the first kill waits for that
                if due and passed > due[0] and in_save and self._checkpoint().exists():
                    with suppress(ProcessLookupError):  # it has just ended by itself
                        os.kill(self.chance.choice(tree_of(process.pid)), signal.SIGKILL)
                        self.kills += 1
                        due.pop(0)
            process.send_signal(signal.SIGTERM)  # it saves, and ends
            with suppress(subprocess.TimeoutExpired):
                process.wait(HANGS)
            if process.returncode != 0:
                self.faults.append(f"told to end, it did so with status {process.returncode}")
                process.kill()
                process.wait()
            self.made_again += self._compare(lost)
        self._check()

    def _start(self, output: Any) -> subprocess.Popen[bytes]:
        how = ["--resume", str(self._checkpoint())] if self._checkpoint().exists() else ["--overwrite"]
        options = [] if how[0] == "--resume" else self.options
        every = ["--checkpoint-seconds", str(self.checkpoint_seconds)]
        self.batches_before = self._count()
        command = [sys.executable, "-m", f"torchrl_pool.examples.{self.program}", *options, *how, *every]
        shared = ["--total-frames", FOREVER, "--output", str(self.folder), "--evaluate", "0", "--quiet"]
        return subprocess.Popen([*command, *shared], stdout=output, stderr=subprocess.STDOUT)

    def _checkpoint(self) -> Path:
        found = sorted(self.folder.glob("*/checkpoint.pt"))
        return found[0] if found else self.folder / "checkpoint.pt"

    def _saves(self) -> bool:
        """Waits for a moment in which a checkpoint is being written, for two seconds."""
        end = time.monotonic() + 2
        while time.monotonic() < end:
            if any(self.folder.glob("*/checkpoint.unfinished")):
                return True
            time.sleep(0.001)
        return False

    def _count(self) -> int:
        return sum(file.read_bytes().count(b"\n") for file in self.folder.glob("*/curve.csv"))

    def _rows(self) -> list[Row]:
        found = list(self.folder.glob("*/curve.csv"))
        if not found:
            return []
        with found[0].open() as file:
            return [row for row in csv.DictReader(file) if None not in row.values()]  # the last may be cut

    def _compare(self, lost: list[Row]) -> int:
        """How many batches have been made again; where that is promised, with the same figures."""
        again = {row["frames"]: row for row in self._rows()}
        kept = self._saved_rows(lost)
        pairs = [(row, again[row["frames"]]) for row in lost[kept:-1] if row["frames"] in again]
        differ = [
            old["frames"] for old, new in pairs if any(old[key] != new[key] for key in old.keys() - TIMES)
        ]
        if self.is_exact and differ:
            self.faults.append(f"a batch made again differs, after {differ[0]} frames")
        return len(pairs)

    def _saved_rows(self, lost: list[Row]) -> int:
        """Rows that came out of the checkpoint, not made again: they have the times of before, too."""
        again = {row["frames"]: row for row in self._rows()}
        same = [row["frames"] in again and row == again[row["frames"]] for row in lost]
        return same.index(False) if False in same else len(same)

    def _sample(self, pid: int, passed: float) -> None:
        found = [resources for process in tree_of(pid) if (resources := resources_of(process))]
        total = {name: sum(one[name] for one in found) for name in ("memory", "descriptors", "threads")}
        batches = self._count() - self.batches_before
        state = {"seconds": passed, "kills": self.kills, "ends": self.ends, "batches": batches}
        self.samples.append({**state, **total})
        files = Counter(name for process in tree_of(pid) for name in files_of(process))
        same = self.files and files == self.files[-1]
        self.files.append(self.files[-1] if same else files)

    def _check(self) -> None:
        with (self.folder / "resources.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, fieldnames=list(self.samples[0]))
            writer.writeheader()
            writer.writerows(self.samples)
        for name, allowed in (("memory", 0.05), ("descriptors", 0.0), ("threads", 0.0)):
            early, late = self.halves(name)
            if late > early * (1 + allowed):
                more = f" ({self.new_files()})" if name == "descriptors" else ""
                self.faults.append(f"{name} grew from {early:,.0f} to {late:,.0f}{more}")
        if "Traceback" in (self.folder / "output.txt").read_text():
            self.faults.append("a traceback was printed, see output.txt")

    def _stands_since(self, passed: float) -> float:
        """Seconds since the last batch, or since the process began."""
        last = self.samples[-1]
        for one in reversed(self.samples):
            if (one["ends"], one["batches"]) != (last["ends"], last["batches"]):
                return passed - one["seconds"]
        return passed

    def _undisturbed(self) -> list[int]:
        """Numbers of the samples after the last end, but for a minute after its second batch."""
        last = self.samples[-1]["ends"]
        found = [number for number, one in enumerate(self.samples) if one["ends"] == last]
        begun = [number for number in found if self.samples[number]["batches"] >= 2] or found
        begin = self.samples[begun[0]]["seconds"] + 60
        return [number for number in begun if self.samples[number]["seconds"] > begin] or begun

    def halves(self, name: str) -> tuple[float, float]:
        """A resource in the first half of the undisturbed time, and in the second.

        Of memory the largest value. Of descriptors and threads the smallest: those of a file that is being
        written come and go, and a leak adds to all later samples.
        """
        numbers = self._undisturbed()
        values = [self.samples[number][name] for number in numbers]
        half, which = len(values) // 2, max if name == "memory" else min
        return which(values[: half + 1]), which(values[half:])

    def new_files(self) -> str:
        """What is open in the last sample and was not in the first undisturbed one."""
        numbers = self._undisturbed()
        new = self.files[numbers[-1]] - self.files[numbers[0]]
        return ", ".join(f"{count} of {name}" for name, count in new.items()) or "none at the end"

    def passing_files(self) -> Counter[str]:
        """In how many undisturbed samples something was open that is not open in all of them."""
        seen = [self.files[number] for number in self._undisturbed()]
        always = seen[0]
        for one in seen:
            always = always & one
        return Counter(name for one in seen for name in one - always)


def tree_of(pid: int) -> list[int]:
    """A process and all its descendants."""
    found = [pid]
    for one in found:
        for children in Path(f"/proc/{one}/task").glob("*/children"):
            try:
                found += map(int, children.read_text().split())
            except OSError:  # a thread that has just ended
                continue
    return found


def resources_of(pid: int) -> dict[str, float] | None:
    """Resident memory in MiB, descriptors and threads; None: it has ended."""
    try:
        status = dict(
            line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line
        )
        return {
            "memory": int(status["VmRSS"].split()[0]) / 1024,
            "descriptors": len(os.listdir(f"/proc/{pid}/fd")),
            "threads": int(status["Threads"]),
        }
    except (OSError, KeyError):
        return None


def files_of(pid: int) -> list[str]:
    """What a process's descriptors are of, without numbers of sockets and processes."""
    names = []
    for descriptor in Path(f"/proc/{pid}/fd").glob("*"):
        try:
            names.append(re.sub(r"\d+", "N", os.readlink(descriptor)))
        except OSError:  # it, or the process, has gone
            continue
    return names


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=480, help="of all trainings together")
    parser.add_argument("--kills", type=int, default=3, help="of each training")
    parser.add_argument("--only", nargs="+", choices=TRAININGS, default=list(TRAININGS))
    parser.add_argument("--checkpoint-seconds", type=float, default=60)
    parser.add_argument("--options", default="", help="for each training, such as '--torch-threads 1'")
    parser.add_argument("--output", type=Path, default=Path("night"))
    parser.add_argument("--json", type=Path)
    parsed = parser.parse_args()
    rows, results = [], {}
    for name in parsed.only:
        program, options, is_exact = TRAININGS[name]
        night = Night(
            program,
            f"{options} {parsed.options}".split(),
            is_exact,
            parsed.output / name,
            parsed.checkpoint_seconds,
        )
        night.run(parsed.minutes * 60 / len(parsed.only), parsed.kills)
        last = night._rows()[-1]
        memory, descriptors = night.halves("memory"), night.halves("descriptors")
        results[name] = {
            "frames": int(float(last["frames"])),
            "return": float(last["return"]),
            "kills": night.kills,
            "made again": night.made_again,
            "memory": memory,
            "descriptors": descriptors,
            "passing files": night.passing_files(),
            "faults": night.faults,
        }
        rows.append(
            [
                name,
                f"{results[name]['frames']:,}",
                f"{float(last['return']):.1f}",
                str(night.kills),
                str(night.made_again),
                " → ".join(f"{one:,.0f}" for one in memory),
                " → ".join(f"{one:.0f}" for one in descriptors),
                "; ".join(night.faults) or "none",
            ]
        )
        print(name, results[name], flush=True)
    head = ["training", "frames", "return", "kills", "batches made again", "MiB", "descriptors", "faults"]
    print_table(head, rows, numbers=4)
    save(parsed.json, results)
    return int(any(result["faults"] for result in results.values()))


if __name__ == "__main__":
    sys.exit(main())
