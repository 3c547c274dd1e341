"""The simulators themselves, as they are between two calls: states and pictures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from torchrl_pool._env.arguments import EnvIndex, env_indices
from torchrl_pool._env.lifecycle import LifeMethods
from torchrl_pool._env.python_source import PythonSource, failures


class SimulatorMethods(LifeMethods):
    """The methods of :class:`~torchrl_pool.PoolEnv` that look into its simulators, or change them."""

    def start(self) -> None:
        """Creates the simulators now, as the first reset does where nobody has."""
        self._start()

    def __getitem__(self, env_index: Any) -> Any:
        raise TypeError(
            f"{type(self).__name__} has no views of its envs: single_envs(env)[{env_index!r}]() is one of "
            f"them, and env.call(…, env_index={env_index!r}) asks it"
        )

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

    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """What TorchRL's envs of Python hold beside their simulators: statistics of transforms within them.

        As that of ``SerialEnv``: ``"worker0"`` holds that of env 0, and so on. Other envs have none of their
        own, and their states are :meth:`get_state`'s.
        """
        state: dict[str, Any] = super().state_dict(*args, **kwargs)
        if self._has_state_dicts and kwargs.get("destination") is None:
            state.update((f"worker{i}", own) for i, own in enumerate(self.call("state_dict")))
        return state

    def load_state_dict(self, state_dict: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
        """Loads what :meth:`state_dict` returned, or what one env's ``state_dict`` did into all of them.

        Args:
            state_dict: the one or the other.
            *args: given to the envs' ``load_state_dict``.
            **kwargs: the same.

        Raises:
            EnvFailure: it is not of such envs.
            KeyError: it is of fewer envs.
        """
        if not self._has_state_dicts:
            return super().load_state_dict(state_dict, *args, **kwargs)
        is_of_one = "worker0" not in state_dict
        own = [state_dict if is_of_one else state_dict[f"worker{i}"] for i in range(self.num_envs)]
        for i, one in enumerate(own):
            self.call("load_state_dict", one, *args, env_index=i, **kwargs)
        return None

    @property
    def _has_state_dicts(self) -> bool:
        return isinstance(self._source, PythonSource) and self._source.is_torchrl

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

        Of what an env is wrapped in, TorchRL's wrappers and Gymnasium's, the outermost that has the method is
        asked.

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

    def has_attr(self, name: str, env_index: EnvIndex = None) -> list[bool]:
        """Whether envs of Python have an attribute, which is not fetched. Otherwise as :meth:`call`."""
        return self._ask_each("has_attr", self._indices(env_index), lambda share: [name])

    def set_attr(self, name: str, values: Any, env_index: EnvIndex = None) -> None:
        """Sets an attribute of envs of Python, where it is. Otherwise as :meth:`call`.

        One that there is not yet is set where Gymnasium's ``set_wrapper_attr`` sets it, in its outermost
        wrapper; of what has none of Gymnasium's, in the outermost of all.

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
            raise TypeError(
                "call, get_attr, has_attr, set_attr: expected a pool of Python envs, got the native task "
                f"{self.task!r}: its options are chosen at construction"
            )
        pool = self._running() if self._was_closed else self._start()
        with failures(), pool.touch(indices):
            return self._source.workers.ask_each(indices, what, arguments)

    def _indices(self, env_index: EnvIndex) -> list[int]:
        return list(range(self.num_envs)) if env_index is None else env_indices(env_index, self.num_envs)


def _stacked(pictures: list[Any]) -> torch.Tensor:
    if len(sizes := {picture.shape for picture in pictures}) != 1:
        raise ValueError(f"env_index: expected envs whose pictures have one size, got {sorted(sizes)}")
    return torch.stack([torch.from_numpy(picture) for picture in pictures])
