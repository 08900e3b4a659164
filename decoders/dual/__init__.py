"""Dual decomposition: AD3 (Martins et al., 2013), the subgradient method, branch and bound."""
