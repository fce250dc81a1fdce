"""The load client at high rates, by hand (``make perf``): accuracy, CPU per event, memory."""
