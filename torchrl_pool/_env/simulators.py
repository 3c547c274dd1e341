"""Simulators: a pool's envs from their creation to its end: seeds, resets, states, pictures, questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import torch
from torchrl.envs import EnvBase

from torchrl_pool import _core
from torchrl_pool._env.arguments import seed_words
from torchrl_pool._env.errors import EnvFailure, env_failure
from torchrl_pool._env.reset_arguments import ResetArguments
from torchrl_pool._env.source import Source
from torchrl_pool._fork_aware_lock import fork_aware_lock


class Simulators:
    """The envs of a source, in an executor that is there from the first reset until the pool is closed.

    Args:
        env: the PoolEnv, whose ``is_closed`` says whether they are there.
        source: where they come from.
        layout: which columns the executor writes.
        step_timeout: seconds that an env may take.
    """

    def __init__(
        self, env: EnvBase, source: Source, layout: _core.LayoutOptions, step_timeout: float | None
    ) -> None:
        self._env, self.source = env, source
        self._layout, self._step_timeout = layout, step_timeout
        self.num_envs = len(source.configs)
        self.pool: _core.Pool | None = None
        self.was_closed = False
        self.closed_by = ""  # if not by its user
        self.entropy: list[list[int] | None] = [None] * self.num_envs
        """The words of the seed that each env begins with, where it has been given one."""
        self.stepped_by: Any = None
        """The stepper that made the last call, which has the envs' latest rows."""
        self._lifecycle = fork_aware_lock()  # held while the pool is opened, seeded or closed
        self._calls = _core.Calls()
        self._nowhere = None, [0] * len(source.configs[0].outputs(layout))

    def start(self) -> _core.Pool:
        """Creates the simulators and threads, once; waits for another thread that starts or closes them."""
        self._check_not_within()
        with self._lifecycle:
            if self.pool is None:
                self.pool = self._open()
                self._env.is_closed = self.was_closed = False
            return self.pool

    def _open(self) -> _core.Pool:
        try:
            pool = self.source.open(self._layout, self._step_timeout)
        except _core.EnvFailure as error:
            raise env_failure(error, None) from None
        try:
            self._seed_pool(pool, self.entropy)
        except BaseException:  # the next start seeds all of them again
            pool.close()
            with suppress(EnvFailure):
                self.source.close()
            raise
        return pool

    def close(self) -> None:
        """Ends the threads and destroys the simulators. Waits for other threads' calls.

        Raises:
            RuntimeError: it is called within a call of the pool; nothing has changed.
            KeyboardInterrupt: nothing has changed, or all is closed (``was_closed``).
        """
        self._check_not_within()
        with self._lifecycle:
            is_interrupted = True
            try:
                if self.pool is not None:
                    self.pool.close()
                is_interrupted = False
            finally:
                # Until the next block no Python function is called: no handler of a signal runs there.
                if self.pool is None or self.pool.is_closed:
                    try:
                        self.source.close()
                    except EnvFailure:
                        if not is_interrupted:  # which comes before what envs raise in their close()
                            raise
                    finally:
                        self.was_closed, self.pool, self.closed_by = True, None, ""
                        self._env.is_closed = True

    def _check_not_within(self) -> None:
        """Before waiting for another thread's close, which may wait for the calling thread's call."""
        if (pool := self.pool) is not None:
            pool.check_not_within()

    def reset(
        self,
        calls: _core.Calls,
        out: _core.Given | None,
        mask: torch.Tensor | None,
        given: ResetArguments,
        pool: _core.Pool | None = None,
    ) -> Any:
        """Has the executor reset all envs, or those of the mask. Returns what it has written, by key."""
        pool = pool or self.start()
        envs: Sequence[int] = ()
        if given.may_be_told:
            envs = range(self.num_envs) if mask is None else mask.reshape(-1).nonzero().flatten().tolist()
        arguments = self.begin_reset(pool, envs, given)
        rows = None if mask is None else (mask, mask.data_ptr())
        return calls.reset(pool, out, rows, arguments)

    def begin_reset(
        self, pool: _core.Pool, envs: Sequence[int], given: ResetArguments
    ) -> _core.ResetArguments:
        """What comes before every reset, however it is asked for: workers are there, and know their part."""
        self.source.revive(pool)
        return given.for_executor(self.source.tell(pool, given, envs))

    def seed(self, seeds: Mapping[int, int]) -> None:
        """Gives these envs their seeds, now if they are running, and whenever they start."""
        entropy: list[list[int] | None] = [None] * self.num_envs
        for env_index, seed in seeds.items():
            entropy[env_index] = seed_words(seed)
        self._check_not_within()
        with self._lifecycle:
            if self.pool is not None:
                self._seed_pool(self.pool, entropy)
            self.entropy = [new or old for new, old in zip(entropy, self.entropy, strict=True)]

    def _seed_pool(self, pool: _core.Pool, entropy: Sequence[list[int] | None]) -> None:
        """Seeds and resets the envs that have entropy here."""
        mask = torch.tensor([words is not None for words in entropy], device="cpu")
        if not mask.any():
            return
        try:
            given = ResetArguments([words or [] for words in entropy])
            self.reset(self._calls, self._nowhere, mask, given, pool)
        except _core.EnvFailure as error:
            raise env_failure(error, None) from None

    # ---- as they are between two calls; `pool` runs

    def get_state(self, pool: _core.Pool, indices: Sequence[int]) -> list[bytes]:
        """As :meth:`PoolEnv.get_state`."""
        envs = sorted(set(indices))
        try:
            states = dict(zip(envs, pool.save(envs), strict=True))
        except _core.EnvFailure as error:
            raise env_failure(error, None) from None
        return [states[i] for i in indices]

    def set_state(self, pool: _core.Pool, state: bytes | Sequence[bytes], indices: Sequence[int]) -> None:
        """As :meth:`PoolEnv.set_state`."""
        states = [state] * len(indices) if isinstance(state, bytes) else list(state)
        if len(states) != len(indices):
            raise ValueError(f"state: expected {len(indices)} states, got {len(states)}")
        for one in states:
            if not isinstance(one, bytes):
                raise TypeError(f"state: expected bytes, got {type(one).__name__}")
        self.source.revive(pool)
        given = dict(zip(indices, states, strict=True))
        envs = sorted(given)
        try:
            pool.load(envs, [given[i] for i in envs])
        except _core.EnvFailure as error:
            raise env_failure(error, None) from None

    def render(self, pool: _core.Pool, indices: Sequence[int]) -> torch.Tensor:
        """As :meth:`PoolEnv.render`."""
        envs = sorted(set(indices))
        try:
            pictures = self.source.render(pool, envs)
        except _core.EnvFailure as error:
            raise env_failure(error, None) from None
        sizes = {picture.shape for picture in pictures}
        if len(sizes) != 1:
            raise ValueError(f"env_index: expected envs whose pictures have one size, got {sorted(sizes)}")
        frames = torch.from_numpy(np.stack(pictures))
        return frames if envs == indices else frames[[envs.index(i) for i in indices]]
