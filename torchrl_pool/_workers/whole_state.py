"""An env as bytes, with all that it is at this moment."""

from __future__ import annotations

import copyreg
import io
import pickle
import zlib
from typing import Any

import cloudpickle


def whole_state(value: Any) -> bytes:
    """Pickles an env as it is now, for ``pickle.loads``.

    Envs that Gymnasium's ``EzPickle`` helps, such as those of MuJoCo and Box2D, would else travel as the
    arguments that they were made with, and arrive as new ones. Windows and contexts that are drawn in
    stay behind: they are made again when they are needed. Pictures and clocks of pygame travel.

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
            if type(obj).__module__.startswith("pygame.") and (reduced := _reduced(obj)) is not None:
                return reduced
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


def _reduced(obj: Any) -> tuple[Any, ...] | None:
    """How an object of pygame travels, of which none does by itself; None: not at all."""
    import pygame

    if isinstance(obj, pygame.Surface):
        if obj.get_abs_parent() is pygame.display.get_surface():
            return type(None), ()
        obj = obj.copy() if obj.get_parent() is not None else obj
        palette = obj.get_palette() if obj.get_bitsize() <= 8 else None
        form = obj.get_size(), obj.get_flags() & pygame.SRCALPHA, obj.get_bitsize(), obj.get_masks()
        pixels = zlib.compress(obj.get_buffer().raw, 1)
        return _surface, (form, palette, obj.get_colorkey(), obj.get_alpha(), pixels)
    return (type(obj), ()) if isinstance(obj, pygame.time.Clock) else None


def _surface(form: Any, palette: Any, colorkey: Any, alpha: int | None, pixels: bytes) -> Any:
    import pygame

    surface = pygame.Surface(*form)
    if palette is not None:
        surface.set_palette(palette)
    surface.get_buffer().write(zlib.decompress(pixels), 0)
    surface.set_colorkey(colorkey)
    surface.set_alpha(alpha)
    return surface


def attributes_of(obj: Any) -> dict[str, Any]:
    """Of its dictionary and of slots."""
    slots = copyreg._slotnames(type(obj))  # type: ignore[attr-defined]
    own = getattr(obj, "__dict__", {})
    return {**own, **{name: getattr(obj, name) for name in slots if hasattr(obj, name)}}


def become(obj: Any, attributes: dict[str, Any]) -> None:
    """Gives an object that was made empty what :func:`attributes_of` has of another."""
    for name, value in attributes.items():
        object.__setattr__(obj, name, value)
