"""A stand-in for ``llama-server`` of exactly known speed; see :mod:`tests.fake.settings`."""
