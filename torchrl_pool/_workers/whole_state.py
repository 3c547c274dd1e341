"""An env as bytes, with all that it is at this moment."""

from __future__ import annotations

import io
import pickle
from typing import Any

import cloudpickle

from torchrl_pool._processes.attributes import attributes_of, become


def whole_state(value: Any) -> bytes:
    """Pickles an env as it is now, for ``pickle.loads``.

    Envs that Gymnasium's ``EzPickle`` helps, such as those of MuJoCo and Box2D, would else travel as the
    arguments that they were made with, and arrive as new ones. Windows and contexts that are drawn in
    stay behind: they are made again when they are needed.

    Raises:
        Exception: whatever something that cannot be pickled raises.
    """
    try:
        return _dumped(value, pickle.Pickler)
    except Exception:  # lambdas and local classes, say
        return _dumped(value, cloudpickle.Pickler)


def _dumped(value: Any, kind: type[pickle.Pickler]) -> bytes:
    class Pickler(kind):  # type: ignore[misc, valid-type]
        def reducer_override(self, obj: Any) -> Any:
            if _is_made_anew(obj):
                return object.__new__, (type(obj),), attributes_of(obj), None, None, become
            if _draws(obj):
                return object.__new__, (type(obj),), {**vars(obj), "viewer": None, "_viewers": {}}
            return super().reducer_override(obj) if kind is not pickle.Pickler else NotImplemented

    file = io.BytesIO()
    Pickler(file, protocol=pickle.HIGHEST_PROTOCOL).dump(value)
    return file.getvalue()


def _is_made_anew(obj: Any) -> bool:
    """Whether what it travels with are the arguments of ``EzPickle``, be it Gymnasium's or Gym's."""
    cls = type(obj)
    own_way = any("__reduce__" in vars(one) or "__reduce_ex__" in vars(one) for one in cls.__mro__[:-1])
    methods = (getattr(cls, name, None) for name in ("__getstate__", "__setstate__"))
    is_helped = any(getattr(one, "__qualname__", "").startswith("EzPickle.") for one in methods)
    return is_helped and not own_way


def _draws(obj: Any) -> bool:
    cls = type(obj)
    return cls.__name__ == "MujocoRenderer" and cls.__module__.startswith("gymnasium.")
