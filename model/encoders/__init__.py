"""Encoders, which turn words into vectors: LSTM, SRU and transformers."""
