"""Steps per second of the contenders for each number of envs and threads, in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torchrl_pool._bench.alternate import Seconds, alternate
from torchrl_pool._bench.contenders import POOL, Contender, Setup, make
from torchrl_pool._bench.gymnasium_env import Unavailable
from torchrl_pool._progress import Progress


@dataclass(frozen=True)
class Cell:
    """What was measured in one run.

    Attributes:
        task: the id of the task.
        num_envs: simulators.
        num_threads: threads.
        seconds_per_step: of one env, by contender: the time of a call over the envs that it steps.
        missing: why the others were not measured, by contender.
    """

    task: str
    num_envs: int
    num_threads: int
    seconds_per_step: dict[str, Seconds]
    missing: dict[str, str]

    @property
    def steps_per_second(self) -> dict[str, float]:
        """Medians over the rounds, by contender."""
        return {name: 1 / seconds.median for name, seconds in self.seconds_per_step.items()}

    def ratio(self, name: str) -> float:
        """How many times as fast as another contender the pool is."""
        return self.seconds_per_step[name].median / self.seconds_per_step[POOL].median

    def as_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {
            "task": self.task,
            "num_envs": self.num_envs,
            "num_threads": self.num_threads,
            "steps_per_second": {name: round(rate, 1) for name, rate in self.steps_per_second.items()},
            "pool_is_faster_by": {name: round(self.ratio(name), 3) for name in self.seconds_per_step},
            "seconds_per_step": self.seconds_per_step,
            "missing": self.missing,
        }


def measure(
    setups: Sequence[Setup], names: Sequence[str], *, rounds: int, round_seconds: float
) -> Iterator[Cell]:
    """Measures the pool and the named contenders in each of the setups: one run for each, all in turn.

    Args:
        setups: what to measure.
        names: of contenders.
        rounds: turns of each contender.
        round_seconds: about how long a turn is.
    """
    for number, setup in enumerate(setups, 1):
        where = f"{setup.num_envs} envs, {setup.num_threads} threads"
        progress = Progress(f"measuring {number} of {len(setups)}: {setup.task}, {where}")
        from torchrl_pool._bench.steppers import one_torch_thread  # torch takes seconds to import: said above

        one_torch_thread()
        contenders, missing = make_all(dict.fromkeys([POOL, *names]), setup, progress.tell)
        try:
            times = alternate(
                {name: contender.run for name, contender in contenders.items()},
                round_seconds=round_seconds,
                rounds=rounds,
                tell=progress.tell,
            )
        finally:
            for contender in contenders.values():
                contender.close()
            progress.close()
        seconds = {name: _per_env(time, contenders[name].envs_per_call) for name, time in times.items()}
        yield Cell(setup.task, setup.num_envs, setup.num_threads, seconds, missing)


def make_all(
    names: Sequence[str] | dict[str, None], setup: Setup, tell: Callable[[str], None] = lambda what: None
) -> tuple[dict[str, Contender], dict[str, str]]:
    """The contenders that can be made, and why the others cannot; ``tell`` hears of each before."""
    contenders, missing = {}, {}
    for name in names:
        tell(f"making {name}")
        try:
            contenders[name] = make(name, setup)
        except Unavailable as why:
            missing[name] = str(why)
    return contenders, missing


def setups(base: Setup, num_envs: Sequence[int], num_threads: Sequence[int]) -> list[Setup]:
    """One task's setups, for each number of envs and of threads."""
    return [
        replace(base, num_envs=n, num_threads=t)
        for n in dict.fromkeys(num_envs)
        for t in dict.fromkeys(num_threads)
    ]


def _per_env(seconds: Seconds, num_envs: int) -> Seconds:
    return Seconds(seconds.median / num_envs, seconds.low / num_envs, seconds.high / num_envs)
