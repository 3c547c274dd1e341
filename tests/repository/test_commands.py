"""What .ci/commands.py does with a document."""

import shutil
import subprocess
import sys

import pytest
from cases import cases
from environments import CHECKOUT

pytestmark = pytest.mark.repo

DOCUMENT = """
```bash
name=value; touch left_behind
mkdir my_envs && touch my_envs/file
```
```python
print("no command")
```
```bash
echo "$name" is \\
  kept
```

<!-- long -->
```bash
echo long block
```
"""


@pytest.fixture
def checkout(tmp_path):
    (tmp_path / ".ci").mkdir()
    shutil.copy(CHECKOUT / ".ci" / "commands.py", tmp_path / ".ci")
    (tmp_path / "DOCUMENT.md").write_text(DOCUMENT)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    return tmp_path


def commands(checkout, *arguments):
    script = [sys.executable, checkout / ".ci" / "commands.py", *arguments, "DOCUMENT.md"]
    return subprocess.run(script, cwd=checkout, stdout=subprocess.PIPE, text=True, check=False)


def test_commands_run_in_one_shell_and_leave_nothing_behind(checkout):
    done = commands(checkout)
    assert done.returncode == 0
    assert "\nvalue is kept\n" in done.stdout
    assert "DOCUMENT.md $ mkdir my_envs" in done.stdout
    assert "long block" not in done.stdout
    assert "no command" not in done.stdout
    assert sorted(path.name for path in checkout.iterdir()) == [".ci", ".git", "DOCUMENT.md"]


def test_long_blocks_on_demand(checkout):
    assert "\nlong block\n" in commands(checkout, "--long").stdout


def test_what_was_there_before_stays(checkout):
    (checkout / "left_behind").touch()
    assert commands(checkout).returncode == 0
    assert (checkout / "left_behind").exists()


@pytest.mark.parametrize(
    ("failing", "status"), cases(default=[("false", 1), ("false && true", 1)], also=[("(exit 7)", 7)])
)
def test_the_first_command_that_fails_ends_all(checkout, failing, status):
    (checkout / "DOCUMENT.md").write_text(f"```bash\necho before\n{failing}\necho after\n```\n")
    done = commands(checkout)
    assert done.returncode == status
    assert "\nbefore\n" in done.stdout
    assert "\nafter\n" not in done.stdout
