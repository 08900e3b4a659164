"""A tokenizer learnt from a treebank: sentences, tokens and multiword tokens of raw text."""
