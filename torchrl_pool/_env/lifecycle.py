"""The simulators and threads behind an env: created when they are first needed, seeded, closed."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from typing import Protocol, Self

import torch
from torchrl._utils import seed_generator

from torchrl_pool import _core
from torchrl_pool._env.arguments import check_int, seed_words
from torchrl_pool._env.errors import EnvFailure, env_failure
from torchrl_pool._env.reset_arguments import ResetArguments
from torchrl_pool._env.source import Source
from torchrl_pool._env.tensors import TensorMethods
from torchrl_pool._fork_aware_lock import ForkAwareLock
from torchrl_pool._progress import shown_if_slow


class Holder(Protocol):
    """What holds tensors that a pool's calls have left."""

    def let_go(self) -> None:
        """Forgets them: the pool is closed."""


class LifeMethods(TensorMethods):
    """The methods of :class:`~torchrl_pool.PoolEnv` that begin and end its simulators."""

    _source: Source
    _layout: _core.LayoutOptions
    _step_timeout: float | None
    _pool: _core.Pool | None = None
    _was_closed = False
    _opening: ForkAwareLock
    _entropy: list[list[int] | None]  # of the last seeds, for the next start
    _flight: object | None = None  # what async calls keep: of this pool, not of the next
    _holders: weakref.WeakSet[Holder]

    def _start(self) -> _core.Pool:
        """Creates the simulators and threads, once, whichever thread asks first."""
        with self._opening:
            if self._pool is None:
                self._pool = self._open()
                self.is_closed = self._was_closed = False
            return self._pool

    def _open(self) -> _core.Pool:
        try:
            pool = self._source.open(self._layout, self._step_timeout)
        except _core.EnvFailure as error:
            raise env_failure(error, None) from None
        try:
            self._seed_pool(pool, self._entropy)
        except BaseException:  # the next start seeds all of them again
            pool.close()
            with suppress(EnvFailure):
                self._source.close()
            raise
        return pool

    def _running(self) -> _core.Pool:
        if self._pool is None:
            raise RuntimeError(f"{self!r} has no running simulators: call reset() before the first step")
        return self._pool

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self, *, raise_if_closed: bool = False) -> None:
        """Ends the threads and destroys the simulators. A later reset starts new ones, seeded as at first.

        Leaving a ``with`` block does the same.

        Args:
            raise_if_closed: whether to refuse to close a pool twice, as ``ParallelEnv`` does. Default:
                closing a closed pool does nothing.

        Raises:
            RuntimeError: ``raise_if_closed``, and the pool is closed.

        Examples:
            >>> from torchrl_pool import PoolEnv
            >>> with PoolEnv("CartPole-v1", num_envs=2) as env:
            ...     env.rollout(3).shape
            torch.Size([2, 3])
        """
        if raise_if_closed and self._was_closed:
            raise RuntimeError(f"close(raise_if_closed=True): {self!r} is closed already")
        pool, self._pool = self._pool, None
        self._flight = None
        for holder in (self._allocator, *self._holders):
            holder.let_go()
        self.is_closed = self._was_closed = True
        if pool is not None:
            pool.close()
        self._source.close()

    def _reset_envs(
        self,
        out: list[int],
        mask: torch.Tensor | None,
        given: ResetArguments,
        owner: object,
        chain: _core.Chain | None = None,
    ) -> None:
        """Has the executor reset all envs, or those of the mask, and write to these addresses."""
        is_first = self._pool is None  # emulators load their games in it
        with shown_if_slow(f"creating {len(self._source.configs):,} envs") if is_first else nullcontext():
            pool = self._start()
            self._source.prepare_reset(pool, given, mask)
            address = 0 if mask is None else mask.data_ptr()
            pool.reset(out, address, given.entropy, owner, given.executor_options, chain)

    def set_seed(self, seed: int | None = None, static_seed: bool = False) -> int | None:
        """Seeds every env, as ``SerialEnv`` of ``GymEnv``'s does, and returns the seed that follows.

        Env 0 gets ``seed`` and each further one the next of TorchRL's chain; with ``static_seed`` all get the
        same. As in ``GymEnv``, each env is also reset once with its seed, so that the next ``reset()`` makes
        the second draw of its stream. ``None`` changes nothing.
        """
        if seed is None:
            return None
        seed = check_int("seed", seed, minimum=0)
        seeds = []
        for _ in range(self.num_envs):
            seeds.append(seed)
            if not static_seed:
                seed = seed_generator(seed)
        self._seed_envs(dict(enumerate(seeds)))
        return seed

    def _set_seed(self, seed: int | None) -> None:
        self.set_seed(seed)

    def _seed_envs(self, seeds: Mapping[int, int]) -> None:
        """Gives these envs their seeds, now if they are running, and whenever they start."""
        entropy: list[list[int] | None] = [None] * self.num_envs
        for env_index, seed in seeds.items():
            entropy[env_index] = seed_words(seed)
        with self._opening:
            pool = self._pool
            if pool is not None:
                self._seed_pool(pool, entropy)
            self._entropy = [new or old for new, old in zip(entropy, self._entropy, strict=True)]

    def _seed_pool(self, pool: _core.Pool, entropy: Sequence[list[int] | None]) -> None:
        """Seeds and resets the envs that have entropy here."""
        seeded = torch.tensor([words is not None for words in entropy], device="cpu")
        if not seeded.any():
            return
        mask = 0 if seeded.all() else seeded.data_ptr()
        try:
            pool.reset(self._allocator.nowhere, mask, [words or [] for words in entropy], seeded)
        except _core.EnvFailure as error:
            raise env_failure(error, None) from None
