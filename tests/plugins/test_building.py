"""From a C++ file to a task: the compiler's call, its cache, and the plugins of installed packages."""

import os
import shutil
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import pytest
from building import SOURCES
from cases import cases
from processes import printed, run_program

import torchrl_pool
from torchrl_pool import EnvFailure, PoolEnv, build_plugin, list_tasks
from torchrl_pool.__main__ import main
from torchrl_pool._plugins import loading
from torchrl_pool._plugins.building import compile_plugin

WALK = (SOURCES / "walk.cc").read_text()
FAST = ("-O0",)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "torchrl_pool"


@pytest.fixture
def compilations(tmp_path, monkeypatch):
    """The calls of the compiler that made a library, one line for each."""
    log = tmp_path / "calls"
    log.touch()
    wrapper = tmp_path / "c++ with a space"
    compiler = os.environ.get("CXX", "c++")
    logged = f'case "$*" in *" -o "*) echo "$*" >>"{log}";; esac'
    wrapper.write_text(f'#!/bin/sh\n{logged}\nexec {compiler} "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("CXX", f"'{wrapper}'")
    return lambda: log.read_text().splitlines()


def walk(folder, name, goal="3.0"):
    """The source of a walk with an id of its own."""
    folder.mkdir(exist_ok=True)
    source = folder / f"{name}.cc"
    source.write_text(WALK.replace("Walk-v0", f"{name}-v0").replace("goal = 3.0", f"goal = {goal}"))
    return source


def tiny(folder):
    """A source that compiles at once, for what is not loaded."""
    folder.mkdir(exist_ok=True)
    source = folder / "tiny.cc"
    source.write_text('extern "C" int answer() { return 42; }\n')
    return source


def python(code, *, path=None):
    """Runs code in a process of its own and returns what it printed."""
    imports = "import sys, torch, torchrl_pool\nfrom torchrl_pool import *\n"
    found = f"sys.path.insert(0, {str(path)!r})\n" if path else ""
    return printed(imports + found + textwrap.dedent(code))


def command(*arguments):
    """``python -m torchrl_pool`` in a process of its own."""
    return run_program("import sys; from torchrl_pool.__main__ import main; sys.exit(main())", *arguments)


# ---- building


def test_a_file_becomes_a_task(cache, tmp_path):
    assert build_plugin(walk(tmp_path, "Built"), flags=FAST) == ["Built-v0"]
    env = PoolEnv("Built-v0", 2, goal=1.0)
    first = env.reset(seed=0)["observation"]
    draws = [torchrl_pool._core.Rng([i]).normal(0, 0.5) for i in range(2)]  # NumPy's library is linked
    assert first.flatten().tolist() == draws
    assert env.rollout(5).shape[0] == 2
    assert len(list(cache.glob("*.so"))) == 1


def test_several_files_and_a_header_become_one_plugin(cache, tmp_path):
    source = walk(tmp_path, "Split")
    text = source.read_text()
    end = text.index("const bool registered")
    (tmp_path / "walk body.h").write_text(text[:end] + "}\n")
    source.write_text(
        '#include "walk body.h"\nnamespace {\n' + text[end:].replace("TORCHRL_POOL_PLUGIN", "// ")
    )
    plugin = tmp_path / "plugin.cc"
    plugin.write_text('#include "torchrl_pool/env.h"\nTORCHRL_POOL_PLUGIN("split", "1.0")\n')
    assert build_plugin([source, plugin], flags=FAST) == ["Split-v0"]


def test_folders_with_characters_that_make_escapes(cache, tmp_path):
    folder = tmp_path / "a #1 for $5, $$"
    source = tiny(folder)
    (folder / "more.h").write_text("")
    source.write_text('#include "more.h"\n' + source.read_text())
    library = compile_plugin(source, flags=FAST)
    assert compile_plugin(source, flags=FAST) == library
    (folder / "more.h").write_text("// changed")
    assert compile_plugin(source, flags=FAST) != library


def test_nothing_is_compiled_twice(cache, compilations, tmp_path):
    source = tiny(tmp_path)
    source.write_text('#include "extra.h"\n' + source.read_text())
    header = tmp_path / "extra.h"
    header.write_text("// one\n")
    first = compile_plugin(source, flags=FAST)
    assert compile_plugin(str(source), flags=FAST) == first
    assert len(compilations()) == 1
    assert "-std=c++20" in compilations()[0]
    header.write_text("// two\n")
    changed = compile_plugin(source, flags=FAST)
    assert changed != first
    header.write_text("// one\n")
    assert compile_plugin(source, flags=FAST) == first
    assert len(compilations()) == 2
    assert compile_plugin(source, flags=(*FAST, "-DNDEBUG")) not in (first, changed)
    assert len(compilations()) == 3
    first.unlink()
    assert compile_plugin(source, flags=FAST) == first
    assert first.exists()


def test_an_edited_file_takes_the_place_of_its_earlier_build(cache, tmp_path):
    source = walk(tmp_path, "Edited", goal="3.0")
    build_plugin(source, flags=FAST)
    old = PoolEnv("Edited-v0", 1, seed=0)
    old.reset()
    walk(tmp_path, "Edited", goal="4.5")
    assert build_plugin(source, flags=FAST) == ["Edited-v0"]
    assert torchrl_pool.task_info("Edited-v0").options[0].default == 4.5
    old.rollout(3)
    other = walk(tmp_path / "elsewhere", "Edited")
    with pytest.raises(ValueError, match=r"brings the task 'Edited-v0', which .* has already"):
        build_plugin(other, flags=FAST)


def test_errors_of_the_compiler_are_shown(cache, tmp_path):
    source = walk(tmp_path, "Wrong")
    source.write_text(source.read_text().replace("double x_ = 0;", "doubel x_ = 0;"))
    with pytest.raises(RuntimeError, match=r"does not build: [^\0]*doubel"):
        build_plugin(source, flags=FAST)
    source.write_text('#include "nowhere.h"\n')
    with pytest.raises(RuntimeError, match=r"does not build: [^\0]*nowhere.h"):
        build_plugin(source)
    assert not list(cache.glob("*.so"))


def test_no_compiler(tmp_path, monkeypatch):
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sysconfig.get_config_var", lambda name: "g++ -pthread")
    with pytest.raises(
        RuntimeError, match=r"needs a C\+\+ compiler: found none of .* environment variable CXX"
    ):
        compile_plugin(SOURCES / "walk.cc")
    monkeypatch.setenv("CXX", "c++-99 -g")
    with pytest.raises(RuntimeError, match=r"\$CXX names 'c\+\+-99', not found"):
        compile_plugin(SOURCES / "walk.cc")


def test_bad_sources(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no file .*missing.cc"):
        build_plugin(tmp_path / "missing.cc")
    with pytest.raises(ValueError, match="at least one"):
        build_plugin([])


def test_building_the_same_at_once(cache, compilations, tmp_path):
    source = tiny(tmp_path)
    with ThreadPoolExecutor(3) as threads:
        libraries = set(threads.map(lambda _: compile_plugin(source, flags=FAST), range(3)))
    assert len(compilations()) == 3
    assert libraries == set(cache.iterdir())  # one library, and nothing half-done


def compilers(name):
    numbered = (f"{name}-{version}" for version in range(30, 13, -1))
    return [found for found in map(shutil.which, (name, *numbered)) if found]


@pytest.mark.parametrize("name", cases(["clang++", "g++"]))
def test_a_plugin_of_another_compiler_runs_beside_others(name, cache, tmp_path, monkeypatch):
    """Whatever compiler built the package: the walks of both are the same, and faults are caught."""
    found = compilers(name)
    if not found:
        pytest.skip(f"there is no {name} here")
    (usual,) = build_plugin(walk(tmp_path, f"Usual{len(name)}"), flags=FAST)
    monkeypatch.setenv("CXX", found[0])
    (other,) = build_plugin(walk(tmp_path, f"Other{len(name)}"), flags=FAST)
    a, b = (PoolEnv(task, 3, num_threads=2) for task in (usual, other))
    root, other_root = a.reset(seed=1), b.reset(seed=1)
    for _ in range(60):
        root = a.rand_action(root)
        other_root["action"] = root["action"].clone()
        td, root = a.step_and_maybe_reset(root)
        other_td, other_root = b.step_and_maybe_reset(other_root)
        assert (td == other_td).all()
    faulty = tmp_path / "faulty.cc"
    text = (SOURCES / "fault.cc").read_text()
    faulty.write_text(text.replace("Fault-v0", f"Fault{len(name)}-v0"))
    (fault,) = build_plugin(faulty, flags=FAST)
    with pytest.raises(EnvFailure, match="in step 2: the simulator broke"):
        PoolEnv(fault, 2, fault="throw", at=2).rollout(3)
    with pytest.raises(EnvFailure, match=r"when it was created: the simulator broke"):
        PoolEnv(fault, 2, fault="throw", at=-1).reset()


def test_build_command(cache, tmp_path, capsys):
    source = walk(tmp_path, "Command")
    assert main(["build", str(source), "--flags=-O0 -g"]) == 0
    library, tasks, *how = capsys.readouterr().out.splitlines()
    assert library in map(str, cache.iterdir())
    assert tasks == "tasks: Command-v0"
    assert how[0] == f"see them: python -m torchrl_pool info Command-v0 --plugin {library}"
    assert f"torchrl_pool.load_plugin({library!r})" in how[1]
    assert "Command-v0" in list_tasks("walk")
    assert main(["build", str(tmp_path / "missing.cc")]) == 2
    source.write_text("#error stop here\n")
    assert main(["build", str(source)]) == 1
    assert "stop here" in capsys.readouterr().err


def test_a_task_that_was_built_elsewhere_is_known_by_its_source(cache, tmp_path):
    """What another process built says how to load it: in an error, and to the command line."""
    source = walk(tmp_path, "Elsewhere")
    show = ("info", "Elsewhere-v0")
    assert command("build", str(source), "--flags=-O0").returncode == 0
    refused = command(*show)
    assert refused.returncode == 2
    assert f"it was built from {source}, but is not loaded" in refused.stderr
    assert f"--plugin {source}" in refused.stderr
    shown = command(*show, "--plugin", source)
    assert shown.returncode == 0, shown.stderr
    assert "position to reach" in shown.stdout
    library = next(cache.glob("*.so"))
    assert command(*show, "--plugin", library).returncode == 0
    with pytest.raises(
        ValueError, match=r"unknown task 'Elsewhere-v0'; it was built from .*: call build_plugin"
    ):
        PoolEnv("Elsewhere-v0", 1)
    # Files of others are no notes.
    for name, content in (("empty", ""), ("list", "[]"), ("numbers", '{"sources": [], "tasks": 2}')):
        (cache / f"{name}.json").write_text(content)
    with pytest.raises(ValueError, match="it was built from"):
        PoolEnv("Elsewhere-v0", 1)
    source.unlink()
    with pytest.raises(ValueError, match=r"unknown task 'Elsewhere-v0'; (did you mean|list_tasks)"):
        PoolEnv("Elsewhere-v0", 1)


# ---- plugins of installed packages


@pytest.fixture
def install(tmp_path):
    """Makes a folder of packages that announce plugins: what pip would leave behind."""
    site = tmp_path / "site"

    def install(name, entry_point, module=""):
        site.mkdir(exist_ok=True)
        (site / f"{name}.py").write_text(f"print('imported {name}')\n{module}")
        info = site / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[torchrl_pool.plugins]\n{name} = {entry_point}\n")
        return site

    return install


def test_installed_plugins_are_found(install):
    library = str(compile_plugin(SOURCES / "walk.cc", flags=FAST))
    site = install("installed", "installed", f"def plugin_path(): return {library!r}")
    out = python(
        """
        PoolEnv("CartPole-v1", 1).rollout(2)
        print("not before it is needed")
        print(PoolEnv("Walk-v0", 2).rollout(2).shape)
        print(len(list_tasks("walk")), list_tasks("walk"))
        """,
        path=site,
    )
    assert out.splitlines() == [
        "not before it is needed",
        "imported installed",
        "torch.Size([2, 2])",
        "1 ['Walk-v0']",
    ]


@pytest.mark.parametrize("of_module", [True, False])
@pytest.mark.parametrize(
    "named", cases(default=["/a/b.so", Path("/a/b.so"), lambda: "/a/b.so"], also=[lambda: Path("/a/b.so")])
)
def test_what_an_entry_point_may_name(named, of_module):
    if of_module:
        module = ModuleType("some_envs")
        module.plugin_path = named
        named = module
    assert loading._library_of(named) == Path("/a/b.so")


def test_a_broken_package_spoils_nothing_else(install):
    library = str(compile_plugin(SOURCES / "walk.cc", flags=FAST))
    install("bad_import", "bad_import:where", "raise OSError('no engine here')")
    install("bad_end", "bad_end:where", "def where(): return next(iter([]))")
    install("bad_path", "bad_path:where", "where = '/nowhere/lib.so'")
    install("bad_type", "bad_type:where", "where = 7")
    install("bad_task", "bad_task:where", f"where = {library!r}")
    site = install("a_good", "a_good:where", f"import shutil\nwhere = {library!r}")
    duplicate = site / "duplicate.so"
    shutil.copy(library, duplicate)
    (site / "bad_task.py").write_text(f"where = {str(duplicate)!r}")
    out = python(
        """
        import warnings
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            print(PoolEnv("Walk-v0", 2).batch_size)
            list_tasks()
            try:
                PoolEnv("Nothing-v0", 2)
            except ValueError as error:
                message = str(error)
        texts = [str(w.message) for w in caught if issubclass(w.category, RuntimeWarning)]
        assert all(text in message for text in texts) and "unknown task 'Nothing-v0'" in message
        print("\\n".join(texts))
        print(PoolEnv("CartPole-v1", 1).rollout(2).shape)
        """,
        path=site,
    )
    lines = [line for line in out.splitlines() if not line.startswith("imported")]
    assert lines[0] == "torch.Size([2])"
    assert lines[-1] == "torch.Size([1, 2])"
    problems = {line.split("'")[1]: line for line in lines[1:-1]}
    assert sorted(problems) == ["bad_end", "bad_import", "bad_path", "bad_task", "bad_type"]
    for package, error in (("bad_import", "OSError: no engine here"), ("bad_end", "StopIteration")):
        assert problems[package].endswith(f"{package} ({package}:where) cannot be loaded: {error}")
    assert "cannot load the plugin /nowhere/lib.so" in problems["bad_path"]
    assert "expected the path of a shared library" in problems["bad_type"]
    assert "brings the task 'Walk-v0', which" in problems["bad_task"]


def test_pools_of_built_and_of_installed_plugins_reach_other_processes(install, tmp_path):
    library = str(compile_plugin(SOURCES / "walk.cc", flags=FAST))
    site = install("installed", "installed:where", f"where = {library!r}")
    moved = tmp_path / "moved.so"
    shutil.copy(library, moved)
    receive = "import pickle; print(pickle.loads(bytes.fromhex({!r})).rollout(2).shape)"
    send = "import pickle; print(pickle.dumps(PoolEnv('Walk-v0', 2, seed=0)).hex())"
    # Installed: the other process finds it by itself, wherever it lies there.
    pickled = python(send, path=site).splitlines()[-1]
    assert library.encode().hex() not in pickled
    (site / "installed.py").write_text(f"where = {str(moved)!r}")
    assert python(receive.format(pickled), path=site).splitlines()[-1] == "torch.Size([2, 2])"
    # Loaded by path: the path goes along.
    pickled = python(f"load_plugin({library!r})\n" + send).splitlines()[-1]
    assert python(receive.format(pickled)).splitlines()[-1] == "torch.Size([2, 2])"
