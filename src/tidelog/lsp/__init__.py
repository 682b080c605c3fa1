"""The language server: what an editor shows and does while rules are written."""
