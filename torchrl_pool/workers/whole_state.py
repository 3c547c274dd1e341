"""An env as bytes, with all that it is at this moment."""

from __future__ import annotations

import io
import pickle
from typing import Any


def whole_state(value: Any) -> bytes:
    """Pickles an env as it is now, for ``pickle.loads``.

    Envs that Gymnasium's ``EzPickle`` helps, such as those of MuJoCo and Box2D, would else travel as the
    arguments that they were made with, and arrive as new ones.

    Raises:
        Exception: whatever something that cannot be pickled raises.
    """
    try:
        return _dumped(value, pickle.Pickler)
    except Exception:  # lambdas and local classes, say
        import cloudpickle

        return _dumped(value, cloudpickle.Pickler)


def _dumped(value: Any, kind: type[pickle.Pickler]) -> bytes:
    class Pickler(kind):  # type: ignore[misc, valid-type]
        def reducer_override(self, obj: Any) -> Any:
            if _is_made_anew(obj):
                return object.__new__, (type(obj),), vars(obj), None, None, _become
            return super().reducer_override(obj) if kind is not pickle.Pickler else NotImplemented

    file = io.BytesIO()
    Pickler(file, protocol=pickle.HIGHEST_PROTOCOL).dump(value)
    return file.getvalue()


def _is_made_anew(obj: Any) -> bool:
    """Whether what it travels with are the arguments of ``EzPickle``, be it Gymnasium's or Gym's."""
    getstate = getattr(type(obj), "__getstate__", None)
    return getattr(getstate, "__qualname__", "") == "EzPickle.__getstate__"


def _become(obj: Any, attributes: dict[str, Any]) -> None:
    vars(obj).update(attributes)
