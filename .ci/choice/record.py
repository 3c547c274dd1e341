"""A plugin of pytest: what each test costs, and which lines it reaches, in all of its processes.

Each process of the run writes a file of its own into ``TRACED_RESULTS``: for each test two lengths, a header
as JSON (its id, seconds of processor and clock, how it ended) and the places that it reached, compressed.
"""

from __future__ import annotations

import json
import mmap
import os
import resource
import struct
import sys
import tempfile
import time
import zlib
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path

import numpy as np
import psutil
import pytest

sys.path.insert(0, os.path.dirname(__file__))

with tempfile.NamedTemporaryFile(dir="/dev/shm", delete=False) as _file:  # worker processes open it by name
    os.environ["TRACED_LINES"] = _file.name
    _file.truncate((4 << 20) + 16 * (2 << 20))
import lines  # after the name of its file is known

lines.install()
with open(os.environ["TRACED_LINES"], "r+b") as _file:
    places = np.frombuffer(mmap.mmap(_file.fileno(), 0), dtype=np.uint8)
results = open(Path(os.environ["TRACED_RESULTS"]) / str(os.getpid()), "wb")  # noqa: SIM115  to the end
ended: dict[str, str] = {}


def processor_seconds() -> float:
    """Of this process and of all that it started, alive or not."""
    ended_ones = resource.getrusage(resource.RUSAGE_CHILDREN)
    total = time.process_time() + ended_ones.ru_utime + ended_ones.ru_stime
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            total += sum(child.cpu_times()[:4])
    return total


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if not report.passed:
        ended[report.nodeid] = report.outcome


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    places.view(np.uint64)[:] = 0
    sys.monitoring.restart_events()
    process, begin, before = os.getpid(), time.perf_counter(), processor_seconds()
    result = yield
    if os.getpid() == process:
        seconds = processor_seconds() - before, time.perf_counter() - begin
        header = json.dumps([item.nodeid, *seconds, ended.get(item.nodeid, "passed")]).encode()
        reached = np.flatnonzero(places.copy()).astype(np.uint32)  # other processes still write
        body = zlib.compress(np.diff(reached, prepend=np.uint32(0)).tobytes(), 1)
        results.write(struct.pack("II", len(header), len(body)) + header + body)
        results.flush()
    return result


def pytest_unconfigure() -> None:
    Path(os.environ["TRACED_LINES"]).unlink(missing_ok=True)
