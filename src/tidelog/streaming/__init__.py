"""Facts over time to answers over time."""
