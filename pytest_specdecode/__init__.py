"""Speculative-decoding benchmarks of LLM servers as pytest assertions."""

__version__ = "0.1.0"
