"""Whoever brings clients to the broker: sockets, TLS, and one package for each protocol."""
