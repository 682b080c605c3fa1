"""Facts in and answers out: types, ticks, readers and writers."""
