"""What the embedded target runs on: a small real model, made ready on this machine."""
