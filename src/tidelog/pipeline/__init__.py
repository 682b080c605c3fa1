"""Streams on Spark."""
