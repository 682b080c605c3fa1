"""Independent ways to the right answers, and generators of programs and data to try them on.

Nothing here uses the analyses or the engines: only the language's own data structures.
"""
