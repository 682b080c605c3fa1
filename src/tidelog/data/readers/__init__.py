"""Facts in: one file for each form they come in.

Nothing is converted silently: a value that does not fit its column is an error with file and line.
A row with NULL (or NaN) in a declared column is not a fact; such rows are counted.
"""
