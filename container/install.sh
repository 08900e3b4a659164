#!/bin/sh
# The steps of the Dockerfile: install Arbora's light size and the English models into a new
# environment, and compile the kernels.
# Usage: install.sh SOURCE ENVIRONMENT
set -eu
source=$(cd "$1" && pwd)
environment=$2
python3 -m venv "$environment"
"$environment/bin/python" -m pip install --no-cache-dir -q -c "$source/constraints.txt" "$source" "$source/models/arbora-english"
cd /  # not in the source, so that what is compiled is what was installed
"$environment/bin/arbora" warmup
"$environment/bin/python" "$source/container/check.py"
