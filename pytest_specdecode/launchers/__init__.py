"""Programs that stand in for an engine's own command where only its library is installed."""
