"""Benchmarks: every module here with a `run(quick)` is one, and `make bench` runs them all."""
