"""Where a model comes from: a file, XML text, or text with the files that it names."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from torchrl_pool import _core
from torchrl_pool._env.arguments import check_env_options

_BYTE_ORDER_MARK = "\ufeff"
_GYMNASIUMS = Path(_core.__file__).parent / "_plugins" / "mujoco" / "assets"  # models, by their names


def is_text(xml: str | os.PathLike[str]) -> bool:
    """Whether this is a model itself rather than the path of one."""
    return isinstance(xml, str) and _unmarked(xml).lstrip().startswith("<")


def _unmarked(text: str) -> str:
    before, begin, model = text.partition("<")
    return before.replace(_BYTE_ORDER_MARK, "") + begin + model


def model_option(xml: str | os.PathLike[str]) -> str:
    """The model as the task takes it: text, an absolute path, or the name of one of Gymnasium's."""
    if not isinstance(xml, (str, os.PathLike)):
        raise TypeError(f"xml: expected the path of a model or its text, got {type(xml).__name__}")
    if is_text(xml):
        return _unmarked(str(xml))
    if not str(xml).strip():
        raise ValueError("xml: expected the path of a model or its text, got an empty string")
    path = Path(xml).expanduser()
    if path.name != str(path) or path.exists():
        return str(path.absolute())
    if not (_GYMNASIUMS / path).exists():
        raise FileNotFoundError(
            f"xml: there is no model {path.name!r}, neither in the current folder ({Path.cwd()}) "
            "nor among Gymnasium's"
        )
    return path.name


class ModelInFolder(str):
    """The path of a model whose files come from memory: there as long as this is."""

    _folder: TemporaryDirectory[str]

    def __new__(cls, xml: str, assets: Mapping[str, bytes]) -> ModelInFolder:
        folder = TemporaryDirectory()
        root = Path(folder.name).resolve()
        model = "model.xml"
        while model in map(os.path.normpath, assets):
            model = f"_{model}"
        for name, content in {**assets, model: xml.encode()}.items():
            file = (root / name).resolve()
            if not file.is_relative_to(root):
                raise ValueError(f"assets: {name!r} leads out of the model's folder")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        path = super().__new__(cls, root / model)
        path._folder = folder
        return path


def with_assets(xml: str | os.PathLike[str], assets: Mapping[str, bytes] | None) -> str:
    """The same for a model whose files may come from memory."""
    if not assets:
        return model_option(xml)
    if not is_text(xml):
        raise TypeError(
            "assets: expected with a model that is given as XML text, got them with a file, which finds its "
            "assets in its own folder"
        )
    if not isinstance(assets, Mapping):
        raise TypeError(f"assets: expected a mapping from names to contents, got {assets!r}")
    for name, content in assets.items():
        if not isinstance(content, (bytes, bytearray, memoryview)):
            raise TypeError(f"assets: {name!r}: expected bytes, got {type(content).__name__}")
    return ModelInFolder(str(xml), assets)


def models_per_env(
    xml: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    assets: Mapping[str, bytes] | None,
    num_envs: int,
) -> list[str]:
    """Each env's model as the task takes it, of one for all of them or one for each."""
    if isinstance(xml, (str, os.PathLike)) or not isinstance(xml, Sequence):
        return [with_assets(xml, assets)] * num_envs
    if len(xml) != num_envs:
        raise ValueError(f"xml: expected one model or {num_envs} of them, one per env, got {len(xml)}")
    distinct: dict[str, str] = {}  # equal models share the folder of their assets
    for one in xml:
        if str(one) not in distinct:
            distinct[str(one)] = with_assets(one, assets)
    return [distinct[str(one)] for one in xml]


def with_models(
    models: Sequence[str], env_options: Sequence[Mapping[str, Any]] | None
) -> list[Mapping[str, Any]]:
    """Each env's options, with its own model among them."""
    check_env_options(env_options, len(models))
    own = env_options or [{}] * len(models)
    return [{"xml_file": model, **options} for model, options in zip(models, own, strict=True)]


def python_model(option: str) -> Any:
    """What :func:`model_option` names, as Python's ``mujoco`` has it.

    Raises:
        ImportError: the package is not installed.
    """
    import mujoco  # makes its own plugins known, too, that models may name

    if is_text(option):
        return mujoco.MjModel.from_xml_string(option)
    path = Path(option)
    return mujoco.MjModel.from_xml_path(str(path if path.is_absolute() else _GYMNASIUMS / path))
