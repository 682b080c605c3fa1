"""What everything below the language works on: clauses, matching, order."""
