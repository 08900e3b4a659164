"""Options of `arbora predict`."""

from __future__ import annotations

from arbora.cli.options import CommandParser
from arbora.cli.options.ensembles import add_ensemble_options
from arbora.cli.options.parsing import add_parsing_options

DESCRIPTION = """\
Parse files, standard input or a sentence with a trained parser.

HEAD and DEPREL are replaced. A parser with taggers fills in LEMMA, UPOS, XPOS and FEATS where they are `_`. Everything
else in the input is copied to the output. For example:

  echo "She reads letters. They are long." | arbora predict english --input raw --draw
  arbora predict runs/mine/best.ckpt test.conllu -o parsed.conllu
  arbora predict runs/mine/best.ckpt --sentence "The cat sat on the mat ."
  echo "The cat sat on the mat ." | arbora predict runs/mine/best.ckpt --input text --draw
  arbora predict runs/mine/best.ckpt half_annotated.conllu --keep heads --k-best 5

MODEL is a checkpoint, an exported folder, the name of an installed model (`arbora models`), or hf:owner/name for one on
the hub. If the first argument is a file to parse, the first installed model is used, and a message names it.

If a sentence is malformed or cannot be parsed, its file and line are reported, and the exit code is 1 at the end.
--resume resumes an interrupted run.
"""


def parser() -> CommandParser:
    """Make the parser of the command's arguments."""
    parser = CommandParser("predict", DESCRIPTION)
    parser.add_argument(
        "files",
        nargs="*",
        metavar="MODEL FILE",
        help="model, and files to parse; without a file, or with -, standard input (a terminal is answered "
        "line by line)",
    )
    parser.add_argument("-o", "--output", help="file to write (default: standard output)")
    parser.add_argument("--sentence", help="parse this sentence, its words separated by spaces, and draw it")
    parser.add_argument(
        "--input",
        choices=["auto", "conllu", "conllx", "text", "raw"],
        default="auto",
        help="auto: CoNLL-U or CoNLL-X, by content, and text in files named .txt; "
        "text: one sentence per line, words separated by spaces; "
        "raw: running text, split into sentences and words by the parser's own tokenizer",
    )
    add_ensemble_options(parser)
    parser.add_argument(
        "--keep",
        choices=["heads"],
        help="keep the values of HEAD and DEPREL, and predict only those that are `_`; sentences in which no "
        "tree has these "
        "heads are reported",
    )
    parser.add_argument(
        "--k-best",
        type=int,
        default=1,
        help="write the k best trees of each sentence, one after the other; the second tree of the sentence s1 "
        "has the sent_id "
        "s1/2; comments give rank, score, and probability among the k trees",
    )
    parser.add_argument(
        "--unique",
        metavar="LABELS",
        help="labels that a head may have at most once, such as nsubj,obj, subtypes included",
    )
    parser.add_argument("--draw", action="store_true", help="draw trees instead of writing CoNLL-U")
    parser.add_argument(
        "--on-error",
        choices=["copy", "skip", "stop"],
        default="copy",
        help="what to do with a sentence that is malformed or cannot be parsed: report it and copy it unchanged, "
        "report it and leave it out, or stop (default: copy); the exit code is 1 in any case",
    )
    parser.add_argument("--resume", action="store_true", help="resume an interrupted run; needs --output")
    add_parsing_options(parser)
    parser.add_argument("--threads", type=int, help="threads for scoring and decoding (default: one for each core)")
    return parser
