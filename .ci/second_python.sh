#!/usr/bin/env bash
# Another Python of this machine, the newest, if there is one: the package's wheel for it is built and installed without
# torch, and what it holds is compared with Gymnasium.
set -euo pipefail
cd "$(dirname "$0")/.."

own=$(python3 -c 'import sys; print(sys.version_info.minor)')
for minor in 14 13 12 11; do
  [ "$minor" = "$own" ] && continue
  for python in "python3.$minor" "${PYENV_ROOT:-$HOME/.pyenv}/versions/3.$minor".*/bin/python3; do
    "$python" -c '' 2>/dev/null || continue
    folder=build/second_python
    "$python" -m venv --clear "$folder"
    "$folder/bin/pip" install -q -c constraints.txt numpy 'gymnasium[mujoco]' ale-py
    "$folder/bin/pip" wheel -q --no-deps -w "$folder/wheels" .
    "$folder/bin/pip" install -q --no-deps "$folder"/wheels/*.whl
    program="$PWD/tests/without_torch.py"
    (cd "$folder" && bin/python --version && bin/python "$program")
    exit
  done
done
echo "there is no other Python here"
