"""Program to analysis: what the rules alone say about time."""
