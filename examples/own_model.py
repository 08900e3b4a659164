"""A model of one's own, with Arbora's decoders: train it through hill-climbing, then compare decoders on its scores.

The model is ten lines of torch that know nothing of Arbora. It scores arcs, and pairs of neighbouring modifiers of a
head (`sibling`). The structured hinge asks a decoder for the tree that violates the margin most; only the parts in
which that tree and the right one differ get a gradient. For example:

    python examples/own_model.py examples/treebank --epochs 3 -o scores
    arbora compare scores --decoders mst,hill_climbing,ad3,branch_and_bound -o report
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from arbora.data.conll import Sentence, read_conll
from arbora.decoders import AD3, MST, HillClimbing, Parts
from arbora.model.losses import hinge


class Model(nn.Module):
    """Embeds words, reads them both ways, and multiplies vectors."""

    def __init__(self, words: int, size: int = 64) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, size)
        self.encode = nn.LSTM(size, size // 2, bidirectional=True, batch_first=True)
        self.head, self.modifier, self.pair = (nn.Linear(size, size) for _ in range(3))

    def forward(self, words: Tensor) -> tuple[Tensor, Tensor]:
        """Vectors (N, d) of a sentence whose position 0 is the root, and scores (N, N) of [modifier, head]."""
        vectors = self.encode(self.embed(words)[None])[0][0]
        return vectors, self.modifier(vectors) @ self.head(vectors).T

    def siblings(self, vectors: Tensor, words: np.ndarray) -> Tensor:
        """Scores of parts (P, 3): head, inner and outer modifier."""
        h, inner, outer = torch.from_numpy(words).long().T
        return (vectors[h] * self.pair(vectors[inner]) * vectors[outer]).sum(1)


def candidates(arc: Tensor, keep: int, number: int = 0, gold: Sequence[int] = ()) -> tuple[np.ndarray, Tensor]:
    """The best heads of each word, the root, and in training the right ones: (A, 3) arcs, and their scores."""
    n = len(arc) - 1
    best = arc.detach().clone().fill_diagonal_(-torch.inf)[1:].topk(min(keep, n)).indices.tolist()
    pairs = {(m, h) for m, heads in enumerate(best, 1) for h in (0, *heads)} | set(enumerate(gold, 1))
    arcs = np.array([(number, m, h) for m, h in sorted(pairs)])
    return arcs, arc.detach()[arcs[:, 1], arcs[:, 2]]


def indices(sentence: Sentence, vocabulary: dict[str, int]) -> Tensor:
    """The root, then the words."""
    return torch.tensor([1, *(vocabulary.get(form.lower(), 0) for form in sentence.form)])


def main() -> None:
    """Train, decode, save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("treebank", type=Path, help="folder with train.conllu and dev.conllu")
    parser.add_argument("-o", "--output", required=True, help="folder for the scores of the development part")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--sentences", type=int, default=300, help="to train on, and to save")
    parser.add_argument("--heads", type=int, default=6, help="candidates of each word")
    options = parser.parse_args()
    train, dev = (
        list(read_conll(options.treebank / f"{part}.conllu"))[: options.sentences] for part in ("train", "dev")
    )
    vocabulary = {form: i for i, form in enumerate(sorted({f.lower() for s in train for f in s.form}), 2)}
    torch.manual_seed(1)
    model, search = Model(len(vocabulary) + 2), HillClimbing(restarts=4)
    optimizer = torch.optim.Adam(model.parameters(), 5e-3)
    for epoch in range(options.epochs):
        total = 0.0
        for sentence in train:
            vectors, arc = model(indices(sentence, vocabulary))
            parts = Parts.from_arcs([len(sentence)], *candidates(arc, options.heads, gold=sentence.head))
            siblings = model.siblings(vectors, parts.words("sibling"))
            gold = torch.tensor([[-1, *sentence.head]])
            # Differentiable scores of those parts that the hinge asks for, by their numbers.
            chosen = {"sibling": siblings}
            loss, _ = hinge(
                arc[None], gold, parts.with_scores(**chosen), search, lambda kind, some, of=chosen: of[kind][some]
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch + 1}: loss {total / len(train):.3f} per sentence")

    # All sentences of the development part in one batch.
    with torch.no_grad():
        found = [model(indices(sentence, vocabulary)) for sentence in dev]
        arcs, scores = zip(*(candidates(arc, options.heads, b) for b, (_, arc) in enumerate(found)))
        batch = Parts.from_arcs([len(sentence) for sentence in dev], np.concatenate(arcs), torch.cat(scores))
        words = np.split(batch.words("sibling"), batch.part_offsets("sibling")[1:-1])
        batch = batch.with_scores(
            sibling=torch.cat([model.siblings(vectors, some) for (vectors, _), some in zip(found, words)])
        )
    heads = batch.empty_trees()
    for b, sentence in enumerate(dev):
        heads[b, 1 : len(sentence) + 1] = sentence.head
    for decoder in (MST(), search, AD3()):
        trees = decoder(batch)
        right = (trees.heads == heads)[heads >= 0].mean()
        print(f"{type(decoder).__name__}: UAS {100 * right:.2f}, mean score {batch.score(trees.heads).mean():.3f}")
    batch.save(options.output, heads, [sentence.form for sentence in dev])


if __name__ == "__main__":
    main()
