"""Text to program: the rule language, its parser, printer, types and checks."""
