"""Why an answer holds, and why one does not."""
