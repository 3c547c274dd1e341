"""Chooses what the default run of the tests has, and writes ``tests/default_run.txt``.

CONTRIBUTING says how to build for it and how to record a run. The default run gets, in this
order, until the seconds are spent:

1. of each function its cheapest case, if it is cheap or guards a guarantee; what alone found a mistake;
2. the cases that reach lines which nothing chosen reaches, most lines per second first;
3. the cheapest of the other cases, each function's second before any one's third: lines do not tell values
   apart.
"""

from __future__ import annotations

import argparse
import heapq
import json
import os
import struct
import subprocess
import sys
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from lines import LIBRARIES, PART, PYTHON, place_of

CHECKOUT = Path(__file__).resolve().parents[2]
FILE = CHECKOUT / "tests" / "default_run.txt"
CHEAP = 3.0  # seconds
# Each documented guarantee is looked at once: masks, next roots, faults, interrupts, forks, kills, order.
GUARANTEES = (
    "env/test_async_errors.py",
    "env/test_masks.py",
    "faults/test_damaged_states.py",
    "faults/test_exhausted_resources.py",
    "faults/test_fault_table.py",
    "faults/test_faults.py",
    "faults/test_fork_table.py",
    "repository/test_instruction_counts.py",
    "faults/test_interrupt_table.py",
    "faults/test_interrupted_sequences.py",
    "faults/test_sequences.py",
    "workers/test_kills.py",
    "workers/test_states_and_interrupts.py",
    "workers/test_worker_faults.py",
)
# Planted mistakes that these alone found.
FOUND_ALONE = (
    "tests/env/test_state_and_render.py::test_restored_envs_continue_bit_for_bit[dm_control/lqr-lqr_6_2-v0]",
    "tests/parity/test_mujoco.py::test_equals_serial_env_of_gym_envs[Hopper-v4]",
    "tests/parity/test_toy_text.py::test_options_equal_gymnasiums"
    "[Taxi-v4-fickle_passenger-fickle_probability-is_rainy]",
    "tests/transforms/test_fuse.py::test_further_ways[steps-classic normal_then_maxima]",
)
MOST_FOR_A_GUARANTEE = 15.0  # seconds; what is dearer has a cheaper one beside it
HEAD = """\
# What the default run of the tests has of each function that it does not run whole: the function, its cases.
# Written by .ci/choice/choose.py: {tests} tests of {seconds:.0f} seconds, which reach {reached} of the {all}
# lines that the long form reaches; {same} of them reach no line of their own.
at most {allowed} tests
"""


@dataclass
class Test:
    id: str
    seconds: float
    lines: set[int]

    @property
    def function(self) -> str:
        return self.id.removeprefix("tests/").partition("[")[0]

    @property
    def case(self) -> str:
        return self.id.partition("[")[2].removesuffix("]")


def recorded(folder: Path) -> Iterator[tuple[str, float, str, np.ndarray]]:
    """Id, seconds, how it ended and places of each test."""
    for file in sorted(folder.iterdir()):
        data, at = file.read_bytes(), 0
        while at < len(data):
            head, body = struct.unpack_from("II", data, at)
            at += 8
            id, _, seconds, ended = json.loads(data[at : at + head])
            steps = np.frombuffer(zlib.decompress(data[at + head : at + head + body]), np.uint32)
            at += head + body
            yield id, seconds, ended, np.cumsum(steps, dtype=np.uint32)


def lines_of(places: np.ndarray) -> dict[int, tuple[str, int]]:
    """The line of the package or of ``cpp`` at each place; code of others is left out."""
    lines = {}
    for file in (CHECKOUT / "torchrl_pool").rglob("*.py"):
        name = str(file.relative_to(CHECKOUT / "torchrl_pool"))
        for number in range(1, file.read_text().count("\n") + 1):
            lines[place_of(name, number)] = name, number
    found = {int(place): lines[int(place)] for place in places if int(place) in lines}
    for part, name in enumerate(LIBRARIES):
        first = PYTHON + part * PART
        here = [int(place) for place in places if first <= place < first + PART]
        if here:
            (library,) = (CHECKOUT / "build" / "choice").rglob(f"*{name}[._]*so")
            addresses = "\n".join(hex((place - first) * 4) for place in here)
            said = subprocess.run(
                ["addr2line", "-e", library], input=addresses, capture_output=True, text=True, check=True
            )
            for place, line in zip(here, said.stdout.splitlines(), strict=True):
                file, _, number = line.partition(" (")[0].rpartition(":")
                file = os.path.normpath(file)  # a compiler names it from where it was run
                if file.startswith(f"{CHECKOUT}/cpp/") and number.isdigit():
                    found[place] = file, int(number)
    return found


def choose(tests: list[Test], seconds: float) -> list[Test]:
    chosen: dict[str, Test] = {}
    reached: set[int] = set()
    cases = defaultdict(list)
    for test in sorted(tests, key=lambda test: test.seconds):
        cases[test.function].append(test)

    def take(test: Test) -> None:
        chosen[test.id] = test
        reached.update(test.lines)

    def affordable(test: Test) -> bool:
        return test.id not in chosen and spent(chosen.values()) + test.seconds <= seconds

    for test in tests:
        if test.id in FOUND_ALONE:
            take(test)
    for function, (cheapest, *_) in cases.items():
        guards = function.partition("::")[0] in GUARANTEES
        if cheapest.seconds <= (MOST_FOR_A_GUARANTEE if guards else CHEAP):
            take(cheapest)

    def gain(test: Test) -> float:
        return len(test.lines - reached) / max(test.seconds, 0.01)

    # What a test adds only falls as others are chosen: no other than the head of the heap is looked at anew.
    heap = [(-gain(test), number) for number, test in enumerate(tests) if test.id not in chosen]
    heapq.heapify(heap)
    while heap:
        _, number = heapq.heappop(heap)
        test, now = tests[number], gain(tests[number])
        if heap and -now > heap[0][0]:
            heapq.heappush(heap, (-now, number))
        elif now and affordable(test):
            take(test)

    for nth in range(1, max(map(len, cases.values()))):
        for test in sorted(
            (its[nth] for its in cases.values() if len(its) > nth), key=lambda test: test.seconds
        ):
            if affordable(test):
                take(test)
    return list(chosen.values())


def spent(tests: Iterable[Test]) -> float:
    return sum(test.seconds for test in tests)


def functions_and_cases() -> dict[str, set[str]]:
    """Of all tests that are not marked slow where they are defined."""
    before = FILE.read_text()
    FILE.write_text("at most 0 tests\n")
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-n", "0"]
    try:
        said = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=True).stdout
    finally:
        FILE.write_text(before)
    cases = defaultdict(set)
    for line in said.splitlines():
        if line.startswith("tests/") and "::" in line:
            function, _, case = line.removeprefix("tests/").partition("[")
            cases[function].add(case.removesuffix("]"))
    return cases


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", type=Path, help="the folder TRACED_RESULTS of the run that recorded")
    parser.add_argument("--seconds", type=float, default=900, help="of all processes together (default: 900)")
    arguments = parser.parse_args()

    records = [record for record in recorded(arguments.results) if record[2] != "failed"]
    lines = lines_of(np.unique(np.concatenate([record[3] for record in records])))
    numbers = {line: number for number, line in enumerate(sorted(set(lines.values())))}
    number_of = {place: numbers[line] for place, line in lines.items()}
    tests = [
        Test(id, seconds, {number_of[place] for place in reached.tolist() if place in number_of})
        for id, seconds, _, reached in records
    ]
    chosen = choose(tests, arguments.seconds)

    known = {test.function for test in tests}  # others are newer than the record
    times_reached = Counter(line for test in chosen for line in test.lines)
    same = sum(all(times_reached[line] > 1 for line in test.lines) for test in chosen)
    cases_of = defaultdict(list)
    for test in chosen:
        cases_of[test.function].append(test.case)
    entries = [
        "\t".join([function, *sorted(cases_of[function])]) + "\n"
        for function, cases in sorted(functions_and_cases().items())
        if function in known and cases - set(cases_of[function])
    ]
    allowed = len(chosen) + len(chosen) // 20
    head = HEAD.format(
        tests=len(chosen),
        seconds=spent(chosen),
        reached=len(times_reached),
        all=len(numbers),
        same=same,
        allowed=allowed,
    )
    FILE.write_text(head + "".join(entries))
    print(head)


if __name__ == "__main__":
    main()
