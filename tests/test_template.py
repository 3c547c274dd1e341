"""The template package: copied out, built into a wheel, installed into a fresh environment, and used."""

import os
import subprocess
import sys
import sysconfig

import pytest

from torchrl_pool.__main__ import main
from torchrl_pool.scaffold import new_package


def run(*command, cwd):
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_new_package_becomes_tasks_of_a_fresh_environment(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["new", "space_envs"]) == 0
    package = tmp_path / "space_envs"
    assert not any(b"my_envs" in file.read_bytes() for file in package.rglob("*") if file.is_file())

    run(sys.executable, "-m", "venv", "fresh", cwd=tmp_path)
    python = tmp_path / "fresh" / "bin" / "python"
    # The packages of the environment that runs this test, torch above all, without installing them again.
    site = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=tmp_path).strip()
    folders = dict.fromkeys(sysconfig.get_path(kind) for kind in ("purelib", "platlib"))
    lines = [f"import site; site.addsitedir({folder!r})\n" for folder in folders]
    with open(os.path.join(site, "outer.pth"), "w") as file:
        file.writelines(lines)

    offline = ("--no-deps", "--no-index", "--quiet")
    run(python, "-m", "pip", "wheel", *offline, "--no-build-isolation", package, cwd=tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    run(python, "-m", "pip", "install", *offline, wheel, cwd=tmp_path)

    code = """
from torchrl_pool import PoolEnv, list_tasks
print(PoolEnv("Docking-v0", 64, mass=1.0).rollout(10, break_when_any_done=False).shape)
print(list_tasks("space_envs"))
"""
    assert run(python, "-c", code, cwd=tmp_path) == "torch.Size([64, 10])\n['Docking-v0']\n"
    run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", package / "tests", cwd=tmp_path)


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
