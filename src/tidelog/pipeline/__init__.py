"""Streams on Spark, exactly once.

    plan        what is settled before anything runs: stages, schedule, keys, delays
    start       where facts come from; whether checkpoint and sink are this stream's
    loop        a batch from top to bottom: take in, advance, write, commit
    modes       offline or online: what is due, and how it is derived
    sites       chooses where a batch is done
    places      the driver or the executors: does it there
    kernel      the wave inside the executors' partitions, and whole in the driver
    state       packed rows between batches, in files that are never changed
    commit      the checkpoint: who the stream is, and the commit of every batch
    store       files on any file system that Spark knows
    metrics     how a stream is doing, published for Prometheus by `publishing`

Sinks are in `streaming/sinks`, readers of facts in `evaluation/spark/`: `files` and `sources`.
"""
