"""The template package: copied out, and its README followed to the letter in a fresh environment."""

import os
import subprocess
import sys
import sysconfig

import pytest
from environments import run
from markdown import code_blocks

from torchrl_pool.__main__ import main
from torchrl_pool._plugins.scaffold import new_package


@pytest.fixture
def fresh_python(tmp_path):
    """An environment of its own that sees the packages of the one that runs the tests, torch above all."""
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "fresh"], check=True)
    python = tmp_path / "fresh" / "bin" / "python"
    site = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=tmp_path).strip()
    folders = dict.fromkeys(sysconfig.get_path(kind) for kind in ("purelib", "platlib"))
    lines = [f"import site; site.addsitedir({folder!r})\n" for folder in folders]
    with open(os.path.join(site, "outer.pth"), "w") as file:
        file.writelines(lines)
    # The programs of those packages, such as cmake, after the environment's own.
    for program in os.scandir(sysconfig.get_path("scripts")):
        if not (python.parent / program.name).exists():
            (python.parent / program.name).symlink_to(program.path)
    return python


def new(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    assert main(["new", name]) == 0
    return tmp_path / name


@pytest.mark.slow  # installs a package
def test_a_new_package_is_as_its_readme_says(fresh_python, tmp_path, monkeypatch):
    package = new(tmp_path, monkeypatch, "space_envs")
    assert not any(b"my_envs" in file.read_bytes() for file in package.rglob("*") if file.is_file())
    bash = fresh_python.parent / "bash"  # found there, so that the environment's programs come first
    bash.symlink_to("/bin/bash")

    build_and_test, share = code_blocks(package / "README.md", "bash")
    out = run(bash, "-euxc", build_and_test, cwd=package)
    assert " 5 passed" in out
    assert "Entries of one env" in out
    (program,) = code_blocks(package / "README.md", "python")
    assert "batch_size=torch.Size([64, 100])" in run(fresh_python, "-c", program, cwd=package)

    run(bash, "-euxc", share, cwd=package)
    (wheel,) = (package / "wheelhouse").iterdir()
    assert wheel.name.startswith("space_envs-0.1.0-py3-none-manylinux_2_")
    install = (fresh_python, "-m", "pip", "install", "--no-deps", "--no-index", "--force-reinstall")
    run(*install, wheel, cwd=tmp_path)
    code = """
from torchrl_pool import PoolEnv, list_tasks
print(PoolEnv("Docking-v0", 64, mass=1.0).rollout(10, break_when_any_done=False).shape)
print(list_tasks("space_envs"))
"""
    assert run(fresh_python, "-c", code, cwd=tmp_path) == "torch.Size([64, 10])\n['Docking-v0']\n"


def test_a_package_that_is_not_built_says_so(tmp_path, monkeypatch):
    package = new(tmp_path, monkeypatch, "raw_envs")
    monkeypatch.syspath_prepend(package / "src")
    import raw_envs

    library = package / "src" / "raw_envs" / "raw_envs.so"
    with pytest.raises(FileNotFoundError, match=f"raw_envs is not built: there is no {library}; README.md"):
        raw_envs.plugin_path()


def test_names_of_packages(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name in ("my-envs", "class", "", "../up"):
        with pytest.raises(ValueError, match="expected a name that Python can import"):
            new_package(name, tmp_path)
    (tmp_path / "taken").mkdir()
    with pytest.raises(FileExistsError, match="taken exists already"):
        new_package("taken", tmp_path)
    assert main(["new", "no-name"]) == 2
    assert "no-name" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]
