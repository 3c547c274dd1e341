"""Where Python envs run: in the pool's own process, in worker processes, or some here and some there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

#: Seconds until a worker that sleeps goes on: that of its processor, which wakes up, too.
WAKING_SECONDS = 50e-6
#: Seconds that asking one more worker takes.
ASKING_SECONDS = 3e-6
#: Envs leave this process for a vector step that is expected to take this much less.
MUCH_LESS = 0.8
#: Envs that would take longer to be made, one after another, are made in workers.
MAKING_SECONDS = 4.0


@dataclass(frozen=True)
class Placement:
    """Where the envs of a pool run.

    Attributes:
        num_workers: worker processes.
        caller_steps: whether the pool's own process steps a share of the envs, or all where there are no
            workers.
        why: the reason, as a sentence goes on with it.
    """

    num_workers: int
    caller_steps: bool
    why: str

    def __str__(self) -> str:
        processes = "1 worker process" if self.num_workers == 1 else f"{self.num_workers} worker processes"
        where = ["this process"] * self.caller_steps + [processes] * (self.num_workers > 0)
        return f"the envs run in {' and '.join(where)}: {self.why}"


def placement_asked_for(
    num_envs: int,
    num_processors: int,
    *,
    num_workers: int | None,
    caller_steps: bool,
    has_processes: bool,
    needs_processes: bool,
) -> Placement | None:
    """The placement that follows from what a pool was asked for; ``None``: it is a matter of speed.

    Args:
        num_envs: number of envs.
        num_processors: processors that this process may use.
        num_workers: what was given for it.
        caller_steps: the same.
        has_processes: whether there can be workers.
        needs_processes: whether envs must be ended or replaced when they fail, which takes workers.
    """
    if num_workers is not None:
        why = "caller_steps is True" if caller_steps else f"num_workers is {num_workers}"
    elif not has_processes:
        num_workers, why = 0, "worker processes need Linux"
    elif caller_steps:
        num_workers, why = num_processors - 1, "caller_steps is True"
    elif needs_processes:
        num_workers, why = num_processors, "respawn and step_timeout need processes that can be ended"
    elif num_envs == 1:
        num_workers, why = 0, "a single env takes as long elsewhere"
    elif num_processors == 1:
        num_workers, why = 0, "there is one processor"
    else:
        return None
    has_local = caller_steps or num_workers == 0
    return Placement(min(num_workers, num_envs - has_local), has_local, why)


def fastest_placement(num_envs: int, num_processors: int, step_seconds: float | None) -> Placement:
    """The placement whose vector steps are expected to take the least time.

    Workers that share out the steps have to be woken and asked. They must gain much more than that: what the
    caller does between two steps, and other programs, make it take longer.

    Args:
        num_envs: number of envs.
        num_processors: processors that this process may use.
        step_seconds: what a step of an env takes; ``None``: nobody knows.
    """
    most = min(num_envs, num_processors)
    if step_seconds is None:
        return Placement(most, False, "it is not known how long their steps take")
    seconds, workers = min(_vector_steps(num_envs, most, step_seconds))
    here, microseconds = num_envs * step_seconds, step_seconds * 1e6
    took = f"{microseconds:.3g} µs" if microseconds < 1e3 else f"{microseconds / 1e3:.3g} ms"
    if seconds < MUCH_LESS * here:
        return Placement(workers, False, f"a step takes about {took}, and {num_envs} are worth sharing out")
    return Placement(0, True, f"a step takes about {took}, and {num_envs} are not worth sharing out")


def _vector_steps(num_envs: int, most: int, step_seconds: float) -> Iterator[tuple[float, int]]:
    """What a vector step takes with so many workers, and how many they are."""
    for workers in range(1, most + 1):
        share = -(-num_envs // workers)
        yield WAKING_SECONDS + workers * ASKING_SECONDS + share * step_seconds, workers
