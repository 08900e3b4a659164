"""Help of `arbora train`: the options that most runs need. `arbora train fit --help` has all of them."""

from textwrap import fill

from arbora.cli.options import CommandParser
from arbora.configs import config_names

DESCRIPTION = """\
Train a parser on a treebank (`fit`, which may be left out), or evaluate one (`validate`, `test`).

Settings are given in a YAML file, on the command line, or both. For example:

  arbora train --config small --data UD_Greek-GDT --run runs/greek      # a folder of Universal Dependencies as it is
  arbora train --config small --data.train train.conllu --data.dev dev.conllu --run runs/mine
  arbora train --config runs/mine/config.yaml --ckpt_path last      # resume after a stop
  arbora train --from runs/mine/best.ckpt --data.train more.conllu --data.dev dev.conllu --run runs/more
  arbora train --model linear --data.train train.conllu --data.dev dev.conllu     # a linear model; see its --help
  arbora train test --config runs/mine/config.yaml --data.test test.conllu

`--config` takes the path of a file, or the name of a configuration that comes with Arbora:
""" + fill(", ".join(config_names()), 100, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)

EPILOG = """\
`arbora train fit --help` lists all options, those of Lightning's trainer among them. With a class, `--help` shows the
class's own, as in `arbora train fit --model.encoder.help LSTM`."""


def parser(subcommand: str) -> CommandParser | None:
    """Make a parser for the short help; None for that of a subcommand, or of linear models, which is longer."""
    if not subcommand.startswith("-") or subcommand == "--model":
        return None
    parser = CommandParser("train", DESCRIPTION, epilog=EPILOG)
    add = parser.add_argument
    add("--run", default="runs/default", help="folder of checkpoints, logs and configuration")
    add("-c", "--config", help="configuration; those on the command line after it take precedence")
    add("--ckpt_path", help="`last` resumes an interrupted run")
    add("--from", metavar="PARSER", help="start from a trained parser, whose settings are kept; words are added")
    add("--patience", default=20, help="stop after this many epochs without a better dev LAS")
    add("--seed_everything", default=1, help="seed of the run")
    data = parser.add_argument_group("data")
    data.add_argument(
        "--data",
        metavar="FOLDER",
        help="folder of a treebank; its files end in train.conllu, dev.conllu and test.conllu",
    )
    data.add_argument("--data.train", help="file to train on, or several, each with an embedding of its treebank")
    data.add_argument("--data.dev", help="file that chooses the best checkpoint")
    data.add_argument("--data.test", help="file for `arbora train test`")
    data.add_argument("--data.max_tokens", default=1500, help="size of a batch, in padded positions")
    data.add_argument("--data.sample", help="train on this many sentences, drawn at random")
    data.add_argument("--data.vectors", help="file of pretrained word vectors")
    model = parser.add_argument_group("model")
    model.add_argument("--model.encoder", default="LSTM", help="LSTM, SRU or Transformer")
    model.add_argument("--model.parts", help="Multilinear scores parts of second and third order")
    model.add_argument("--model.taggers", help="Taggers learns tags, features and lemmas with the parser")
    model.add_argument(
        "--model.pruner", help="how candidate heads for higher-order parts are chosen: Shared, Frozen or Vine"
    )
    model.add_argument("--model.decoder", default="mst", help="a name such as ad3(max_iterations=50), or a file")
    model.add_argument("--model.loss", help="cross_entropy, crf, projective_crf or hinge, or a list of them")
    model.add_argument("--model.optimization.lr", default=2e-3, help="learning rate at its peak")
    trainer = parser.add_argument_group("trainer")
    trainer.add_argument("--trainer.max_epochs", default=30, help="number of epochs")
    trainer.add_argument("--trainer.accelerator", default="auto", help="cpu, gpu, mps")
    trainer.add_argument("--trainer.devices", default="auto", help="number of devices")
    return parser
