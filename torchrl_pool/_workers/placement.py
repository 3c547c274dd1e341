"""Where Python envs run: in the pool's own process, in worker processes, or some here and some there."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

#: Seconds until a worker that sleeps goes on: that of its processor, which wakes up, too.
WAKING_SECONDS = 50e-6
#: Seconds that asking one more worker takes.
ASKING_SECONDS = 3e-6
#: Seconds for which torch's threads keep their processors busy after an operation that they shared.
SPINNING_SECONDS = 10e-3
#: Envs leave this process for a vector step that is expected to take this much less.
MUCH_LESS = 0.8
#: Envs that would take longer to be made, one after another, are made in workers.
MAKING_SECONDS = 4.0


@dataclass(frozen=True)
class Placement:
    """Where the envs of a pool run.

    Attributes:
        num_workers: worker processes.
        num_here: envs that the pool's own process steps, the last ones: 0 to all of them.
        why: the reason, as a sentence goes on with it.
    """

    num_workers: int
    num_here: int
    why: str

    def __str__(self) -> str:
        processes = "1 worker process" if self.num_workers == 1 else f"{self.num_workers} worker processes"
        where = ["this process"] * (self.num_here > 0) + [processes] * (self.num_workers > 0)
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
    if num_workers == 0:
        return Placement(0, num_envs, why)
    num_workers = min(num_workers, num_envs - caller_steps)
    return Placement(num_workers, max(1, num_envs // (num_workers + 1)) if caller_steps else 0, why)


def fastest_placement(
    num_envs: int, num_processors: int, step_seconds: float | None, torch_threads: int
) -> Placement:
    """The placement whose vector steps are expected to take the least time.

    Workers that share out the steps have to be woken and asked. They must gain much more than that: what the
    caller does between two steps, and other programs, make it take longer. This process steps some envs
    beside them only where workers alone do not gain as much: an env that crashes takes its process with it.

    Args:
        num_envs: number of envs.
        num_processors: processors that this process may use.
        step_seconds: what a step of an env takes; ``None``: nobody knows.
        torch_threads: threads of torch in this process, which keep their processors busy for a while after
            an operation that they shared.
    """
    if step_seconds is None:
        return Placement(min(num_envs, num_processors), 0, "it is not known how long their steps take")
    took = f"{step_seconds * 1e6:.3g} µs" if step_seconds < 1e-3 else f"{step_seconds * 1e3:.3g} ms"
    counts = f"a step takes about {took}, and {num_envs} are"
    shared = _shared_out(num_envs, num_processors, step_seconds, torch_threads)
    if shared is not None:
        return Placement(*shared, f"{counts} worth sharing out")
    why = f"{counts} not worth sharing out"
    if _shared_out(num_envs, num_processors, step_seconds, 1) is not None:
        why = (
            f"a step takes about {took}, and torch's {torch_threads} threads would keep workers waiting; "
            "if the policy is small, call torch.set_num_threads(1) before the pool is made"
        )
    return Placement(0, num_envs, why)


def _shared_out(
    num_envs: int, num_processors: int, step_seconds: float, torch_threads: int
) -> tuple[int, int] | None:
    """The number of workers, and of envs of this process beside them, if so much is gained."""
    for steps_here in (False, True):
        steps = _vector_steps(num_envs, num_processors, step_seconds, torch_threads, steps_here)
        seconds, workers, here = min(steps, default=(math.inf, 0, 0))
        if seconds < MUCH_LESS * num_envs * step_seconds:
            return workers, here
    return None


def _vector_steps(
    num_envs: int, num_processors: int, step_seconds: float, torch_threads: int, steps_here: bool
) -> Iterator[tuple[float, int, int]]:
    """What a vector step takes with so many workers, how many they are, and the envs of this process.

    It steps envs while workers wake up, and so more of them than each worker.
    """
    for workers in range(1, min(num_envs, num_processors) + 1 - steps_here):
        here = (num_envs + round(workers * WAKING_SECONDS / step_seconds)) // (workers + 1)
        here = min(max(here, 1), num_envs - workers) * steps_here
        share = -(-(num_envs - here) // workers)
        seconds = workers * ASKING_SECONDS + max(WAKING_SECONDS + share * step_seconds, here * step_seconds)
        threads = workers + steps_here + torch_threads - 1
        yield _taking_turns(seconds, threads, num_processors), workers, here


def _taking_turns(seconds: float, threads: int, num_processors: int) -> float:
    """What takes so long alone, where so many threads share processors until torch's go to sleep."""
    turns = -(-threads // num_processors)
    return seconds + min((turns - 1) * seconds, SPINNING_SECONDS)
