"""The Spark pipeline: any streaming DataFrame in, answers out, exactly once."""
