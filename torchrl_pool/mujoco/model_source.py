"""Where a model comes from: a file, XML text, or text with the files that it names."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

_TEXT = "model.xml"


def is_text(xml: str | os.PathLike[str]) -> bool:
    """Whether this is a model itself rather than the path of one."""
    return isinstance(xml, str) and xml.lstrip().startswith("<")


def model_option(xml: str | os.PathLike[str]) -> str:
    """The model as the task takes it: text, an absolute path, or the name of one of Gymnasium's."""
    if not isinstance(xml, (str, os.PathLike)):
        raise TypeError(f"xml: expected the path of a model or its text, got {type(xml).__name__}")
    if is_text(xml):
        return str(xml)
    path = Path(xml).expanduser()
    is_name = path.name == str(path) and not path.exists()
    return path.name if is_name else str(path.absolute())


@contextlib.contextmanager
def with_assets(xml: str | os.PathLike[str], assets: Mapping[str, bytes] | None) -> Iterator[str]:
    """The same for as long as it takes to compile the model, whose files may come from memory."""
    if not assets:
        yield model_option(xml)
        return
    if not is_text(xml):
        raise TypeError("assets: for a model that is given as text; a file finds its own beside it")
    with TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        for name, content in {**assets, _TEXT: str(xml).encode()}.items():
            file = (root / name).resolve()
            if not file.is_relative_to(root):
                raise ValueError(f"assets: {name!r} leads out of the model's folder")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        yield str(root / _TEXT)
