"""Deterministic simulation of the commit protocol: one seed is one history.

disk        files in memory, and what a loss of power leaves of them
machine     a process: its calls can fail, kill it, or be the last before the lights go out
spark_log   a stand-in for Spark's own logs
stream      the real batch loop over a small program, without Spark
targets     sinks: the real ones where they write files, and models
setting     program, options, sink and accidents of a history, and what arrives
history     one seed: what happens, what people do, and what is checked
mutants     changes of the product that some seed must notice
"""
