"""Linear models: hashed features, weights, MIRA. Neither training nor parsing imports torch."""
