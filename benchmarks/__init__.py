"""Measurements, side by side with the peer in the same run. `python -m benchmarks --help`."""
