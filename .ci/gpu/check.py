#!/usr/bin/env python3
"""Checks the package on a machine with a GPU and without network access: tests, then figures, in ten minutes.

    OUT=FOLDER python3 .ci/gpu/check.py                  tests; figures too, if all of them pass
    OUT=FOLDER python3 .ci/gpu/check.py tests figures    these, or one of them, whatever fails

To be run in a copy of what git tracks and of ``.device``, which ``prepare.py`` beside this fills elsewhere.
FOLDER then holds ``summary.txt``, a row for each step and the last lines of those that measured or failed,
``all.log`` and ``figures.json``. Steps have time limits, and so has the whole, LIMIT seconds.

DEVICE=cpu SMALL=1 rehearses it without a GPU; SLOW=4 gives each step four times as long.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from prepare import ROOT, WHEELS, sources

OUT = Path(os.environ["OUT"]).resolve()
DEVICE = os.environ.get("DEVICE", "cuda")
SLOW, LIMIT = float(os.environ.get("SLOW", "1")), float(os.environ.get("LIMIT", "555"))
TO_END = 6  # seconds that a step has after its limit
PROCESSES = min(max((os.cpu_count() or 2) // 2, 2), 8)
SITE = Path(tempfile.gettempdir()) / "torchrl_pool_site"
WORK = Path(tempfile.mkdtemp())
FIGURES = WORK / "figures.json"
ENVIRONMENT = os.environ | {
    "PYTHONPATH": f"{SITE}:{ROOT / 'benchmarks'}",
    "PYTHONSAFEPATH": "1",  # the checkout's package is not compiled
    "PYTHONUNBUFFERED": "1",
    "MPLBACKEND": "Agg",
}
VERSIONS = """
import platform, shutil, subprocess, sys, torch
from throughput import _versions, machine_line
from torchrl_pool import PoolEnv, __file__, versions
print(machine_line(), "Python " + platform.python_version(), _versions(), versions(), __file__, sep="\\n")
for program, *options in (["gcc", "-dumpfullversion"], ["nvidia-smi"]):
    print(program, "" if shutil.which(program) else "is not there", flush=True)
    shutil.which(program) and subprocess.run([program, *options])
PoolEnv("HalfCheetah-v5", 2).rollout(3)
is_there = torch.cuda.is_available()
print("torch for CUDA", torch.version.cuda, "finds", torch.cuda.get_device_name() if is_there else "no GPU")
sys.exit(sys.argv[1] == "cuda" and not is_there)
"""


class Check:
    """Runs steps, and keeps what came of them."""

    def __init__(self) -> None:
        self.begin, self.failed = time.monotonic(), 0
        self.rows = [f"{'what':36} {'result':10} {'s':>5}  last line"]
        self.texts: list[str] = []
        self.figures: dict[str, object] = {}
        OUT.mkdir(parents=True, exist_ok=True)
        self.log = (OUT / "all.log").open("wb+")

    def step(self, name: str, seconds: float, command: list[object]) -> bool:
        """Runs a program for at most so many seconds, and no more than are left; whether it passed."""
        begin = time.monotonic()
        most = min(seconds * SLOW, LIMIT - (begin - self.begin) - TO_END)
        if most < TO_END:
            return self.note(name, "not run", begin, "no time left")
        words = list(map(str, command))
        self.log.write(f"\n==== {name}: at most {most:.0f} s: {shlex.join(words)}\n".encode())
        self.log.flush()
        start = self.log.tell()
        result = self._result(words, most)
        self.log.seek(start)
        text = self.log.read().decode(errors="replace").replace("\r", "\n")
        lines = [line[:200] for line in text.splitlines() if line.strip()]
        if result != "passed" or FIGURES in command:
            self.texts += [f"\n---- {name}", *lines[-40:]]
        if FIGURES in command and result == "passed":
            self.figures[name] = json.loads(FIGURES.read_text())
        return self.note(name, result, begin, lines[-1] if lines else "")

    def _result(self, words: list[str], most: float) -> str:
        how: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": self.log, "stderr": subprocess.STDOUT}
        process = subprocess.Popen(words, cwd=ROOT, env=ENVIRONMENT, start_new_session=True, **how)
        try:
            return f"failed {code}" if (code := process.wait(most)) else "passed"
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGINT)  # pytest then says what has failed so far
            with suppress(subprocess.TimeoutExpired):
                process.wait(TO_END - 1)
            return "timed out"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # and whom it has started
            process.wait()

    def note(self, name: str, result: str, begin: float, text: str) -> bool:
        self.failed += result != "passed"
        self.rows.append(f"{name:36} {result:10} {time.monotonic() - begin:5.0f}  {text[:100]}")
        print(self.rows[-1], flush=True)
        (OUT / "summary.txt").write_text("\n".join([*self.rows, *self.texts, ""]))
        (OUT / "figures.json").write_text(json.dumps(self.figures, indent=1) + "\n")
        return result == "passed"

    def finish(self, why: str = "") -> NoReturn:
        self.rows.append(f"{self.failed} did not pass; {time.monotonic() - self.begin:.0f} s. {why}")
        summary = "\n".join([*self.rows, *self.texts, ""])
        (OUT / "summary.txt").write_text(summary)
        print("\n" + summary[:11_000])
        shutil.rmtree(WORK)
        sys.exit(self.failed > 0)


def pytest(*files: str) -> list[object]:
    how = ("-q", "-p", "no:cacheprovider", "-n", PROCESSES, "-m", "", "--timeout", 120)
    return [sys.executable, "-m", "pytest", *how, *(f"tests/{file}" for file in files)]


def training(command: str, device: str = DEVICE) -> list[object]:
    program, *options = command.split()
    how = ("--quiet", "--overwrite", "--evaluate", 0, "--output", WORK / program, "--device", device)
    return [sys.executable, "-m", f"torchrl_pool.examples.{program}", *how, *options]


def benchmark(command: str) -> list[object]:
    program, *options = command.split()
    return [sys.executable, f"benchmarks/{program}.py", *options, "--json", FIGURES]


def test(check: Check) -> None:
    check.step("tests/env/test_cuda.py", 170, pytest("env/test_cuda.py"))
    stand_ins = ("env/test_late_device.py", "env/test_devices.py", "training/test_on_a_device.py")
    check.step("tests on what stands for devices", 100, pytest(*stand_ins))
    if check.step("ppo learns CartPole-v1", 60, training("ppo --until-return 475")):
        more = f"ppo --resume {WORK}/ppo/ppo-CartPole-v1-0 --total-frames 200000"
        check.step("it goes on on cpu", 60, training(more, "cpu"))


def measure(check: Check) -> None:
    sizes, rounds, envs, threads = "ALE/Pong-v5:256 HalfCheetah-v5:1024", 9, "64 1024", "1 2 4 8 16"
    pong, cheetah, replayed = 32768, 131072, 6000
    if "SMALL" in os.environ:
        sizes, rounds, envs, threads = "ALE/Pong-v5:8 HalfCheetah-v5:16", 3, "8", "1 2"
        pong, cheetah, replayed = 8192, 4096, 1500
    command = f"gpu --device {DEVICE} --tasks {sizes} --rounds {rounds}"
    check.step("benchmarks/gpu.py", 170, benchmark(command))
    for seconds, command in (
        (60, f"ppo --task ALE/Pong-v5 --preset envpool-pong --total-frames {pong}"),
        (40, f"impala --task ALE/Pong-v5 --total-frames {pong}"),
        (25, f"ppo --task HalfCheetah-v5 --total-frames {cheetah}"),
        (30, f"dqn --task ALE/Pong-v5 --total-frames {replayed} --learning-starts 1000"),
        (30, f"sac --task HalfCheetah-v5 --total-frames {replayed} --learning-starts 1000"),
    ):
        for device in dict.fromkeys((DEVICE, "cpu")):
            name = command.replace("--task ", "").partition(" --")[0]
            check.step(f"{name} on {device}", seconds, training(command, device))
    for task in ("CartPole-v1", "HalfCheetah-v5", "Ant-v5"):
        command = f"throughput --task {task} --num-envs {envs} --num-threads {threads} --against raw"
        check.step(f"threads, {task}", 60, benchmark(f"{command} --rounds 5"))
    check.step(f"ppo compiled on {DEVICE}", 75, training("ppo --compile yes --total-frames 60000"))
    check.step("benchmarks/scale.py", 60, benchmark("scale --rounds 5"))


def main() -> None:
    asked = sys.argv[1:]
    check = Check()
    wheels = list((WHEELS / sources()).glob("*.whl"))
    if not wheels:
        check.note("install", "failed", check.begin, "no wheels of these sources: prepare.py makes them")
        check.finish("Nothing else can run.")
    shutil.rmtree(SITE, ignore_errors=True)
    pip = (sys.executable, "-m", "pip", "--isolated", "install", "-q")
    how = ("--no-index", "--no-deps", "--no-compile", "--target", SITE)
    if not check.step("install", 120, [*pip, *how, *wheels]):
        check.finish("Nothing else can run.")
    if not check.step("versions, and is there a GPU?", 60, [sys.executable, "-c", VERSIONS, DEVICE]):
        check.finish("Nothing else is worth its time.")
    if not asked or "tests" in asked:
        test(check)
    if check.failed and not asked:
        check.finish("Figures are left out: ask for them by name, or mend first.")
    if not asked or "figures" in asked:
        measure(check)
    check.finish()


if __name__ == "__main__":
    main()
