"""The load against running servers."""
