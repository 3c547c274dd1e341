"""The simulators themselves, as they are between two calls: states and pictures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from torchrl_pool.env.arguments import EnvIndex, env_indices
from torchrl_pool.env.life import LifeMethods
from torchrl_pool.env.python_source import PythonSource, failures


class SimulatorMethods(LifeMethods):
    """The methods of :class:`~torchrl_pool.PoolEnv` that look into its simulators, or change them."""

    def get_state(self, env_index: EnvIndex = None) -> list[bytes]:
        """The states of simulators, random streams and episode counters included: one ``bytes`` per env.

        A restored env continues bit for bit, in another pool of the same task too.

        Raises:
            NotImplementedError: the task cannot save its state.
            RuntimeError: an env has not been reset.
        """
        pool = self._running()
        return [pool.save(i) for i in self._indices(env_index)]

    def set_state(self, state: bytes | Sequence[bytes], env_index: EnvIndex = None) -> None:
        """Puts simulators into states that :meth:`get_state` returned; the next step continues from there.

        Args:
            state: one state for each env of ``env_index``, or one for all of them.
            env_index: the envs, by number or by a mask of bools; ``None``: all.

        Raises:
            ValueError: the bytes are no state of this task, or their number is wrong.
        """
        pool = self._start()
        indices = self._indices(env_index)
        states = [state] * len(indices) if isinstance(state, bytes) else list(state)
        if len(states) != len(indices):
            raise ValueError(f"state: expected {len(indices)} states, got {len(states)}")
        for i, one in zip(indices, states, strict=True):
            if not isinstance(one, bytes):
                raise TypeError(f"state: expected bytes, got {type(one).__name__}")
            pool.load(i, one)

    def render(self, env_index: EnvIndex = None) -> torch.Tensor:
        """Pictures of envs as they are now: uint8 ``[k, H, W, 3]``.

        Raises:
            NotImplementedError: the task cannot be rendered.
            RuntimeError: an env has not been reset.
        """
        pool = self._running()
        indices = self._indices(env_index)
        if isinstance(self._source, PythonSource):
            return _stacked(self._ask_each("render", indices, lambda share: []))
        sizes = {pool.render_size(i) for i in indices}
        if len(sizes) != 1:
            raise ValueError(f"env_index: expected envs whose pictures have one size, got {sorted(sizes)}")
        frames = torch.empty((len(indices), *sizes.pop(), 3), dtype=torch.uint8, device="cpu")
        for frame, i in zip(frames, indices, strict=True):
            pool.render(i, frame.data_ptr())
        return frames

    def call(self, name: str, *args: Any, env_index: EnvIndex = None, **kwargs: Any) -> list[Any]:
        """Calls a method of envs of Python, wherever they run: one result for each env.

        Of Gymnasium's wrappers the outermost one that has the method is asked.

        Args:
            name: the method.
            *args: what it is given; the same for all envs.
            env_index: the envs, by number or by a mask of bools; ``None``: all.
            **kwargs: what it is given by name.

        Raises:
            EnvFailure: it raised, or there is no such method; with the traceback of its process.
            TypeError: the envs are not of Python.

        Examples:
            >>> from torchrl_pool import PoolEnv
            >>> env = PoolEnv("gymnasium:CartPole-v1", num_envs=2, num_workers=1)
            >>> env.call("has_wrapper_attr", "gravity", env_index=0)
            [True]
        """
        return self._ask_each("call", self._indices(env_index), lambda share: [name, args, kwargs])

    def get_attr(self, name: str, env_index: EnvIndex = None) -> list[Any]:
        """An attribute of envs of Python: one value for each env. Otherwise as :meth:`call`."""
        return self._ask_each("get_attr", self._indices(env_index), lambda share: [name])

    def set_attr(self, name: str, values: Any, env_index: EnvIndex = None) -> None:
        """Sets an attribute of envs of Python. Otherwise as :meth:`call`.

        Args:
            name: the attribute.
            values: a list or tuple with one value for each env; anything else: for all of them.
            env_index: as in :meth:`call`.

        Raises:
            ValueError: there are not as many values as envs.
        """
        indices = self._indices(env_index)
        own = list(values) if isinstance(values, (list, tuple)) else [values] * len(indices)
        if len(own) != len(indices):
            raise ValueError(f"values: expected {len(indices)} of them, one per env, got {len(own)}")
        self._ask_each("set_attr", indices, lambda share: [name, [own[i] for i in share]])

    def _ask_each(
        self, what: str, indices: list[int], arguments: Callable[[list[int]], list[Any]]
    ) -> list[Any]:
        if not isinstance(self._source, PythonSource):
            raise TypeError(f"{self!r} has no envs of Python that could be asked")
        pool = self._running() if self._was_closed else self._start()
        with failures(), pool.touch(indices):
            return self._source.workers.ask_each(indices, what, arguments)

    def _indices(self, env_index: EnvIndex) -> list[int]:
        return list(range(self.num_envs)) if env_index is None else env_indices(env_index, self.num_envs)


def _stacked(pictures: list[Any]) -> torch.Tensor:
    if len(sizes := {picture.shape for picture in pictures}) != 1:
        raise ValueError(f"env_index: expected envs whose pictures have one size, got {sorted(sizes)}")
    return torch.stack([torch.from_numpy(picture) for picture in pictures])
