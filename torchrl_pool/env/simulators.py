"""The simulators themselves, as they are between two calls: states and pictures."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from torchrl_pool.env.arguments import EnvIndex, env_indices
from torchrl_pool.env.life import LifeMethods


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
        sizes = {pool.render_size(i) for i in indices}
        if len(sizes) != 1:
            raise ValueError(f"env_index: expected envs whose pictures have one size, got {sorted(sizes)}")
        frames = torch.empty((len(indices), *sizes.pop(), 3), dtype=torch.uint8, device="cpu")
        for frame, i in zip(frames, indices, strict=True):
            pool.render(i, frame.data_ptr())
        return frames

    def _indices(self, env_index: EnvIndex) -> list[int]:
        return list(range(self.num_envs)) if env_index is None else env_indices(env_index, self.num_envs)
