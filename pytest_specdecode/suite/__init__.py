"""The shipped suite: ``pytest --pyargs pytest_specdecode.suite --spec-steps=1,2,3``."""
