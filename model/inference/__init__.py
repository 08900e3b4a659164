"""From sentences to trees: one path for everything that parses."""
