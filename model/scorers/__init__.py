"""From vectors to scores of arcs, labels, higher-order parts and tree features."""
