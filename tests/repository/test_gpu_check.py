"""``.ci/gpu/check.py`` where a step does not pass; that all do is for a machine with a GPU to show."""

import importlib
import json
import re
import sys

import pytest
from environments import CHECKOUT

pytestmark = pytest.mark.repo

IGNORES_INTERRUPTS = (
    "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); print('begun', flush=True)"
)


@pytest.fixture
def script(tmp_path, monkeypatch):
    """It as a module, with the CPU in the GPU's place."""
    monkeypatch.setenv("OUT", str(tmp_path / "out"))
    monkeypatch.setenv("DEVICE", "cpu")
    monkeypatch.syspath_prepend(CHECKOUT / ".ci" / "gpu")
    for name in ("check", "prepare"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    module = importlib.import_module("check")
    monkeypatch.setattr(module, "WHEELS", tmp_path)
    monkeypatch.setattr(module, "TO_END", 1.5)
    yield module
    for name in ("check", "prepare"):
        del sys.modules[name]


def python(program, *arguments):
    return [sys.executable, "-c", program, *arguments]


def ended(call, *arguments):
    with pytest.raises(SystemExit) as info:
        call(*arguments)
    return info.value.code


def test_a_step_that_does_not_pass_is_summed_up(script, capsys):
    check = script.Check()
    measures = "import sys; open(sys.argv[1], 'w').write('[1]'); print('so fast')"
    assert check.step("measures", 30, python(measures, script.FIGURES))
    assert not check.step("raises", 30, python("print('before'); raise SystemExit('why')"))
    assert not check.step("hangs", 1.5, python(f"{IGNORES_INTERRUPTS}; time.sleep(60)"))
    check.begin -= script.LIMIT
    assert not check.step("comes late", 30, python("print('too late')"))
    assert ended(check.finish, "Because.") == 1
    summary = (script.OUT / "summary.txt").read_text()
    for row in (
        r"measures +passed +\d+  so fast",
        r"raises +failed 1 +\d+  why",
        r"hangs +timed out +\d+  begun",
        r"comes late +not run +0  no time left",
        r"3 did not pass; \d+ s\. Because\.",
        r"---- raises\nbefore\nwhy",
    ):
        assert re.search(row, summary), row
    assert summary in capsys.readouterr().out
    assert "too late" not in (script.OUT / "all.log").read_text()
    assert json.loads((script.OUT / "figures.json").read_text()) == {"measures": [1]}


def test_a_wheel_of_other_sources_is_not_installed(script, monkeypatch, capsys):
    folder = script.WHEELS / "0123456789abcdef"
    folder.mkdir()
    (folder / "torchrl_pool-0.1.0-cp312-cp312-linux_x86_64.whl").touch()
    monkeypatch.setattr(sys, "argv", ["check.py"])
    assert ended(script.main) == 1
    assert "no wheels of these sources: prepare.py makes them" in capsys.readouterr().out
