"""Answers of real engines, and how to read them."""
