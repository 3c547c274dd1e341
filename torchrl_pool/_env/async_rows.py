"""Entries that travel with envs in flight: a receiver's rows, from whatever tensordicts they were sent in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from tensordict import TensorDict

from torchrl_pool import _core
from torchrl_pool._env.specs import Key


def rows_sent(sent: Sequence[tuple[dict[Key, Any], int] | None]) -> dict[Key, Any]:
    """The entries that the envs' rows were sent with; of several sends, those that all of them had."""
    sources: list[Mapping[Key, Any]] = []
    number_of: dict[int, int] = {}
    groups, rows = [], []
    for origin in sent:
        assert origin is not None
        entries, row = origin
        group = number_of.setdefault(id(entries), len(sources))
        if group == len(sources):
            sources.append(entries)
        groups.append(group)
        rows.append(row)
    if len(sources) == 1 and rows == list(range(len(rows))):
        whole = {key: value for key, value in sources[0].items() if value.shape[0] == len(rows)}
        if len(whole) == len(sources[0]):
            return whole
    return _gathered(sources, groups, rows)


def _gathered(
    sources: Sequence[Mapping[Key, Any]], groups: Sequence[int], rows: Sequence[int]
) -> dict[Key, Any]:
    """Entries whose row i is row ``rows[i]`` of the source number ``groups[i]``."""
    gathered: dict[Key, Any] = {}
    columns = []
    for key, value in sources[0].items():
        if not all(key in entries for entries in sources):
            continue
        parts: list[Any] = [entries[key] for entries in sources]
        if all(_is_plain(part, value) for part in parts):
            out = (
                torch.empty_like(value)  # half the price
                if value.shape[0] == len(rows)
                else torch.empty((len(rows), *value.shape[1:]), dtype=value.dtype, device="cpu")
            )
            row_bytes = out.numel() // len(rows) * out.element_size()
            columns.append((out.data_ptr(), row_bytes, [part.data_ptr() for part in parts]))
            gathered[key] = out
        elif all(type(part) is TensorDict for part in parts):
            gathered[key] = TensorDict(
                _gathered([part._tensordict for part in parts], groups, rows),
                batch_size=[len(rows), *value.batch_size[1:]],
                device=value.device,
                names=value._td_dim_names,
            )
        else:
            gathered[key] = torch.stack([parts[group][row] for group, row in zip(groups, rows, strict=True)])
    if columns:
        _core.gather_rows(groups, rows, columns)
    return gathered


def _is_plain(value: Any, like: Any) -> bool:
    """Whether rows of the value can be copied as bytes into rows of a tensor like the other."""
    return (
        type(value) is torch.Tensor
        and type(like) is torch.Tensor
        and value.is_cpu
        and value.dtype is like.dtype
        and value.shape[1:] == like.shape[1:]
        and value.is_contiguous()
        and not value.requires_grad
    )
