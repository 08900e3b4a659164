"""From words to vectors: LSTM, SRU, transformers, precomputed vectors."""
