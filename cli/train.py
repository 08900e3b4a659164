"""`arbora train`: a LightningCLI for the parser and the treebank."""

from __future__ import annotations

import logging
import sys
import time
import warnings
from argparse import HelpFormatter
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import pytorch_lightning as pl
from lightning_fabric.utilities.exceptions import MisconfigurationException
from pytorch_lightning.callbacks import EarlyStopping, LearningRateMonitor, ModelCheckpoint
from pytorch_lightning.cli import LightningArgumentParser, LightningCLI, SaveConfigCallback
from pytorch_lightning.loggers import CSVLogger, Logger, TensorBoardLogger

import arbora.model.encoders.sru
import arbora.model.encoders.transformer  # noqa: F401 - likewise
from arbora.cli.arguments import OneLineErrors
from arbora.cli.options.train import DESCRIPTION
from arbora.cli.train_arguments import SUBCOMMANDS, join_files
from arbora.cli.training_output import TrainingOutput
from arbora.data.treebank import Treebank
from arbora.decoders.names import decoder_classes
from arbora.memory import is_out_of_memory
from arbora.model.storage.checkpoint import read_checkpoint
from arbora.model.tokenizer.learning import figures_of, has_text, learn_tokenizer
from arbora.model.tokenizer.tokenizer import Tokenizer
from arbora.model.training import LightningParser

MONITOR = "LAS_full"
"""Figure on the development part that chooses the best epoch: labels count whole, as the parser predicts them."""


class TrainParser(OneLineErrors, LightningArgumentParser):
    """Arguments of `arbora train`."""

    def format_help(self, formatter: HelpFormatter | None = None) -> str:
        """Return the help, with the options of Lightning's trainer last."""
        self.usage = f"{self.prog.replace(' [options]', '')} [options]"
        groups = cast(list[Any], self._action_groups)
        groups.sort(key=lambda group: (group.title or "").startswith("Customize every aspect"))
        text: str = super().format_help(formatter)
        return text


class SeedEpochs(pl.Callback):
    """Seeds the random numbers at the start of every epoch, so that a resumed run draws the same numbers.

    Args:
        seed: of the whole run.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        # In a resumed run, Lightning does not call the hook at the start of an epoch.
        if batch_idx == 0:
            seed = (self.seed * 10_007 + trainer.current_epoch) * 1_009 + trainer.global_rank
            pl.seed_everything(seed % 2**32, verbose=False)


class TrainCLI(LightningCLI):
    """Adds defaults of every run: logs, the best and the last checkpoint, early stopping, a folder."""

    @staticmethod
    def subcommands() -> dict[str, set[str]]:
        return {name: skipped for name, skipped in LightningCLI.subcommands().items() if name in SUBCOMMANDS}

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        parser.link_arguments("data.vocabulary", "model.vocabulary", apply_on="instantiate")
        parser.add_argument(
            "--run", type=str, default="runs/default", help="folder of checkpoints, logs and configuration"
        )
        parser.add_argument(
            "--patience", type=int, default=20, help="stop after this many epochs without a better dev LAS"
        )

    def _parse_ckpt_path(self) -> None:
        """Checks which checkpoint is meant; Lightning would look for settings in it."""
        subcommand = self.config.subcommand
        config = self.config[subcommand]
        config.weights_only = True
        run = Path(config.run)
        if config.ckpt_path in ("best", "last"):
            config.ckpt_path = str(run / f"{config.ckpt_path}.ckpt")
        if subcommand != "fit":
            config.verbose = False  # `TrainingOutput` prints the figures
            config.ckpt_path = config.ckpt_path or str(run / "best.ckpt")
        elif config.ckpt_path is None and (run / "last.ckpt").exists():
            raise ValueError(
                f"{run} already has a run: give another --run, remove the folder, or resume it with --ckpt_path last"
            )
        elif config.ckpt_path is not None and Path(config.ckpt_path).resolve().parent != run.resolve():
            raise ValueError(f"a run must be resumed in its own folder: give --run {Path(config.ckpt_path).parent}")
        if config.ckpt_path is not None:
            read_checkpoint(config.ckpt_path)

    def after_instantiate_classes(self) -> None:
        self.datamodule.vocabulary = self.model.vocabulary  # larger, if it starts from a trained parser
        for part in {"fit": ("train", "dev"), "validate": ("dev",), "test": ("test",)}[str(self.subcommand)]:
            self.datamodule.sentences(part)  # find errors in files before anything is written

    def instantiate_trainer(self, **kwargs: Any) -> pl.Trainer:
        config = self.config[self.subcommand]
        seed = config.seed_everything
        callbacks: list[pl.Callback] = [SeedEpochs(seed if isinstance(seed, int) and seed is not True else 0)]
        callbacks.append(TrainingOutput(config.run, MONITOR))
        kwargs["default_root_dir"] = config.run
        if config.trainer.logger is None:
            kwargs["logger"] = _loggers(config.run) if self.subcommand == "fit" else False
        if self.subcommand == "fit":
            callbacks += [
                _checkpoint(config.run, "best", monitor=f"dev/{MONITOR}", mode="max"),
                _checkpoint(config.run, "last"),
                EarlyStopping(f"dev/{MONITOR}", mode="max", patience=config.patience, strict=False),
            ]
            if kwargs.get("logger", config.trainer.logger) is not False:
                callbacks.append(LearningRateMonitor("epoch"))
        trainer_config = {**self._get(self.config_init, "trainer", default={}), **kwargs}
        return self._instantiate_trainer(trainer_config, callbacks)

    def _run_subcommand(self, subcommand: str) -> None:
        try:
            super()._run_subcommand(subcommand)
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            if self.model.training:
                accumulate = 2 * self.trainer.accumulate_grad_batches
                advice = f"lower data.max_tokens, now {self.datamodule.max_tokens}; with half of it, "
                advice += (
                    f"--trainer.accumulate_grad_batches {accumulate} leaves as many words in a step of the optimizer"
                )
            else:
                advice = f"lower data.max_eval_tokens, now {self.datamodule.max_eval_tokens}"
            raise ValueError(f"not enough memory on {self.trainer.strategy.root_device}: {advice}") from error

    def before_fit(self) -> None:
        if self.model.tokenizer is None and self.trainer.is_global_zero:
            self.model.tokenizer = _learn_tokenizer(self.datamodule)


def _learn_tokenizer(treebank: Treebank) -> Tokenizer | None:
    """Train a tokenizer and print its accuracy; None if the text is not known."""
    train, dev = treebank.sentences("train"), treebank.sentences("dev")
    if not (has_text(train) and has_text(dev)):
        print("no tokenizer: the training or development part has no `# text`, so the parser will not take raw text")
        return None
    started = time.perf_counter()
    tokenizer = learn_tokenizer(train, dev)
    tokens, sentences = figures_of(tokenizer, dev)
    seconds = time.perf_counter() - started
    print(f"tokenizer: trained in {seconds:.0f} s; dev F1 of tokens {tokens:.2f}, of sentences {sentences:.2f}")
    return tokenizer


def _loggers(run: str) -> list[Logger]:
    """Create CSV logs, and TensorBoard logs if the extra is installed."""
    csv = CSVLogger(run, name="logs")
    return [TensorBoardLogger(run, name="logs", version=csv.version), csv] if find_spec("tensorboard") else [csv]


def _checkpoint(folder: str, name: str, **options: Any) -> ModelCheckpoint:
    """A checkpoint that is replaced after every epoch, from which a run resumes exactly."""
    return ModelCheckpoint(folder, name, enable_version_counter=False, save_on_train_epoch_end=True, **options)


class SaveRunConfig(SaveConfigCallback):
    """Writes the whole configuration into the folder of the run."""

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        if trainer.is_global_zero and stage == "fit":
            folder = Path(trainer.default_root_dir)
            folder.mkdir(parents=True, exist_ok=True)
            self.parser.save(self.config, folder / "config.yaml", skip_unset=False, overwrite=True, multifile=False)


def main(arguments: Sequence[str]) -> None:
    """Run `arbora train` with these arguments; `fit` is understood where no subcommand is named."""
    decoder_classes()  # imports all of them, since a configuration may name any
    arguments = join_files(arguments)
    if arguments and arguments[0] not in (*SUBCOMMANDS, "-h", "--help"):
        arguments.insert(0, "fit")
    _quieten()
    try:
        TrainCLI(
            LightningParser,
            Treebank,
            args=arguments,
            save_config_callback=SaveRunConfig,
            seed_everything_default=1,
            trainer_defaults={
                "max_epochs": 30,
                "gradient_clip_val": 5.0,
                "logger": None,
                "num_sanity_val_steps": 0,
                "enable_progress_bar": False,
                "enable_model_summary": False,
            },
            auto_configure_optimizers=False,
            load_from_checkpoint_support=False,
            parser_kwargs={"prog": "arbora train", "description": DESCRIPTION},
            parser_class=TrainParser,
        )
    except MisconfigurationException as error:
        raise ValueError(str(error)) from error
    except SystemExit as stop:
        if isinstance(stop.__context__, KeyboardInterrupt):  # Lightning handles it, and exits with code 1
            sys.exit(130)
        raise


def _quieten() -> None:
    """Suppress Lightning's messages about itself and about choices that are intended here."""
    for library in ("pytorch_lightning", "lightning_fabric"):
        logging.getLogger(library).setLevel(logging.WARNING)
    for message in (
        ".*LightningCLI's args parameter",  # several devices start anew from sys.argv, so it stays as it is
        ".*has `__len__` defined",
        ".*isinstance\\(treespec, LeafSpec\\)",
        ".*The number of training batches",
        ".*exists and is not empty",
        ".*Be aware that when using `ckpt_path`",
        ".*The dirpath has changed",
        ".*have overridden `transfer_batch_to_device`",
        ".*module\\(s\\) in eval mode at the start",  # those of `model.trained`
    ):
        warnings.filterwarnings("ignore", message)
