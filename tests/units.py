"""Settings of decoders that are in the unit of the scores by definition."""

from dataclasses import replace

from arbora.decoders import AD3, BranchAndBound, Decoder, Greedy, HillClimbing, Subgradient


def rescaled(decoder: Decoder, factor: float) -> Decoder:
    """The decoder for scores that are multiplied by a factor: what is in their unit is multiplied along.

    Greedy's probabilities are the softmax of alpha times the arc scores, and HillClimbing draws trees in proportion to
    the exponential of arc scores divided by the temperature if it starts from `first_order`. The penalty of AD3 and
    BranchAndBound and the step of Subgradient are relative to the scores unless they are given.
    """
    if isinstance(decoder, Greedy):
        return replace(decoder, alpha=decoder.alpha / factor)
    if isinstance(decoder, HillClimbing) and decoder.start == "first_order":
        return replace(decoder, temperature=decoder.temperature * factor)
    if isinstance(decoder, AD3 | BranchAndBound) and decoder.rho is not None:
        return replace(decoder, rho=decoder.rho * factor)
    if isinstance(decoder, Subgradient) and decoder.step is not None:
        return replace(decoder, step=decoder.step * factor)
    return decoder
