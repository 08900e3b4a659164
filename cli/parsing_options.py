"""Decoder and settings that the options of a command ask for."""

from __future__ import annotations

from argparse import Namespace

from arbora.cli.options import check_least
from arbora.decoders import Decoder
from arbora.decoders.names import OWN, find_decoder
from arbora.model.inference.batch_parser import ParsingSettings


def chosen_decoder(options: Namespace, own: Decoder | None) -> Decoder | None:
    """Return the decoder that `--decoder` and `--decoder.NAME` name; None if neither is given."""
    if options.decoder is None and not options.decoder_settings:
        return None
    return find_decoder(options.decoder or OWN, own, options.decoder_settings)


def parsing_settings(options: Namespace) -> ParsingSettings:
    """Return the settings of parsing, if the options go together."""
    check_least(options, max_tokens=1, max_length=1)
    if options.runtime == "onnx" and options.device not in ("auto", "cpu"):
        raise ValueError(f"--runtime onnx runs on the CPU, not on --device {options.device}")
    return ParsingSettings(
        options.max_tokens,
        options.max_length,
        probabilities=options.confidence,
        strict=options.strict,
        tags=options.tags,
        treebank=options.treebank,
    )
