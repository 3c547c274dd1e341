"""Where Python envs would run faster, once their steps have been timed."""

from __future__ import annotations

#: Seconds of steps after which it is known how long one takes.
ENOUGH_SECONDS = 2.0
#: Microseconds of a step from which on workers pay, and below which they do not.
LONG_STEP, SHORT_STEP = 50.0, 30.0


def advice_on(num_workers: int, num_envs: int, num_processors: int, steps: int, seconds: float) -> str:
    """A sentence; empty: the envs run where they should, or it is not known.

    Args:
        num_workers: worker processes of the pool; 0: the envs are in its own process.
        num_envs: number of envs.
        num_processors: processors that this process may use.
        steps: steps of single envs so far.
        seconds: what these took.
    """
    if seconds < ENOUGH_SECONDS or steps == 0:
        return ""
    step = seconds / steps * 1e6
    took = f"a step of one of the {num_envs} Python envs takes about {step:,.0f} µs"
    most = min(num_envs, num_processors)
    if num_workers == 0 and step > LONG_STEP and most > 1:
        return (
            f"{took}, and they run one after another in this process: with num_workers={most} they run on as "
            "many processors, in processes that import modules anew and do not see what this program has "
            "changed in them"
        )
    if num_workers > 0 and step < SHORT_STEP:
        return f"{took}, less than waking a worker: num_workers=0 is faster, with the envs in this process"
    return ""
