"""What is in a checkpoint, whether it is whole, and how to go back: without Spark, from its files.

checkpoint   the doors: show, verify, audit, rollback, export, letters
on_spark     the checkpoint of a stream on Spark: commits, state files, Spark's logs
in_process   the checkpoint of a stream in process: snapshots
tables       the state as tables with the names that users know
answers      what a sink holds
letters      dead letters, by problem, and as rows that `--facts` reads
folder       a folder on this machine
reports      what the commands say, as data
"""
