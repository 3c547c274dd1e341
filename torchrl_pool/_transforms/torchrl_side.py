"""The transforms that TorchRL runs, around the native part of a chain, or around what a graph has for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from tensordict import TensorDictBase, is_tensor_collection
from torchrl.envs import Transform

from torchrl_pool._env.traced import no_part_of_a_graph


class Part(Protocol):
    """The pool and the native part of its transforms."""

    rest: list[Transform]

    def step(self, root: TensorDictBase) -> TensorDictBase | None: ...

    @property
    def reset(self) -> Callable[..., TensorDictBase]: ...


def root_of_step(part: Part, tensordict: TensorDictBase) -> TensorDictBase:
    """What the native part's step begins with. Transforms may have written a mask ``"_step"`` to it."""
    root = tensordict
    for transform in reversed(part.rest):
        root = transform.inv(root)
    return root


def with_preset(following: TensorDictBase, tensordict: TensorDictBase) -> TensorDictBase:
    """``"next"`` with what the caller has put there and the env does not write."""
    preset = tensordict.get("next", None)
    return following if preset is None else following.update(preset.exclude(*following.keys(True, True)))


def step(part: Part, tensordict: TensorDictBase, root: TensorDictBase) -> TensorDictBase | None:
    """What ``"next"`` becomes. None: an entry is not as the specs have it, which TorchRL deals with."""
    following = part.step(root)
    if following is None:
        return None
    following = with_preset(following, tensordict)
    if part.rest:
        root = root.exclude("_step")
        for transform in part.rest:
            following = transform._step(root, following)
    return following


def reset(
    part: Part, source: TensorDictBase | None, known: TensorDictBase | None, **kwargs: Any
) -> TensorDictBase:
    """The root that a reset gives.

    Args:
        part: the native part.
        source: what transforms look at, the mask ``"_reset"`` among it.
        known: the root, for envs that go on.
        **kwargs: what the pool's reset takes.
    """
    for transform in reversed(part.rest):
        source = transform._reset_env_preprocess(source)
    root = part.reset(source, known, **kwargs)
    source = root.empty() if source is None else source
    for transform in part.rest:
        root = transform._reset(source, root)
    return root


def attributes_of(transforms: Sequence[Transform]) -> list[tuple[torch.nn.Module, str]]:
    """Where transforms keep tensors, tensordicts, numbers and words."""
    kinds = bool, int, float, str, torch.Tensor
    return [
        (module, name)
        for transform in transforms
        for module in transform.modules()
        for namespace in (module.__dict__, module._buffers)
        for name, value in namespace.items()
        if isinstance(value, kinds) or is_tensor_collection(value)
    ]


class Kept:
    """What transforms keep, so that a graph, which has no branches, can take back what happens to it.

    Args:
        attributes: those of :func:`attributes_of`.
    """

    def __init__(self, attributes: Sequence[tuple[torch.nn.Module, str]]) -> None:
        self._attributes = [(module, name, getattr(module, name)) for module, name in attributes]
        tensors: list[torch.Tensor] = []
        for _, _, value in self._attributes:
            if is_tensor_collection(value):
                tensors.extend(value.values(True, True))
            elif isinstance(value, torch.Tensor):
                tensors.append(value)
        self._tensors = [(tensor, tensor.clone()) for tensor in tensors]

    def take_back_unless(self, happened: torch.Tensor) -> None:
        """Leaves all as it was, where this is false.

        Raises:
            RuntimeError: a transform has assigned something to an attribute, which only Python could undo.
        """
        for tensor, before in self._tensors:
            tensor.copy_(torch.where(happened, tensor, before))
        for module, name, value in self._attributes:
            if getattr(module, name) is not value:
                _refuse(name)


@no_part_of_a_graph("a transform's reset assigns something to one of its attributes, at each step of a graph")
def _refuse(name: str) -> None:
    raise RuntimeError(
        f"a transform's reset assigns something to its attribute {name!r}, and a compiled step runs it "
        "where no episode has ended, too: write into a tensor instead, or do not compile step_and_maybe_reset"
    )
