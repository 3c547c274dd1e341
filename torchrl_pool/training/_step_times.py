"""How long an env's steps take, told to whoever asks: for programs that say where their time went."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from torchrl_pool._env.pool_env import PoolEnv


class _TimedPool:
    """The executor's pool, whose calls are timed."""

    def __init__(self, pool: Any, add: Callable[[float], None]) -> None:
        self._pool, self._add = pool, add

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._pool, name)
        if not callable(member):
            return member

        def timed(*args: Any, **kwargs: Any) -> Any:
            start = time.perf_counter()
            try:
                return member(*args, **kwargs)
            finally:
                self._add(time.perf_counter() - start)

        setattr(self, name, timed)
        return timed


def time_steps(env: PoolEnv, add: Callable[[float], None]) -> None:
    """Calls ``add`` with the seconds of each step, from the env itself or from a collector.

    Counted is what the caller waits for the executor, transforms that run in it included.

    Args:
        env: a pool, without transforms; collectors made for it later are timed, too.
        add: takes the seconds of one call.

    Examples:
        >>> from torchrl_pool import PoolEnv
        >>> from torchrl_pool.training import time_steps
        >>> env, seconds = PoolEnv("CartPole-v1", num_envs=2), []
        >>> time_steps(env, seconds.append)
        >>> _ = env.rollout(10)
        >>> len(seconds) >= 10, min(seconds) > 0
        (True, True)
    """
    running = env._running
    timed: dict[int, _TimedPool] = {}

    def running_timed() -> Any:
        pool = running()
        if id(pool) not in timed:
            timed.clear()
            timed[id(pool)] = _TimedPool(pool, add)
        return timed[id(pool)]

    env.__dict__["_running"] = running_timed
