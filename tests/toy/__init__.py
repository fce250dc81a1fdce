"""An engine of somebody else's, as a package of its own would bring it: server, adapter, entry point."""
