"""The pattern of `spark_stream` in Flink SQL, run by the Python that has PyFlink.

`_flink.py match|join PATH OUT`: CSV files of readings in, without header; answers out; seconds and
answers as JSON.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from pyflink.common import Configuration
from pyflink.table import EnvironmentSettings, TableEnvironment

SOURCE = """
CREATE TABLE readings (
  device STRING, level STRING, `time` BIGINT,
  `at` AS TO_TIMESTAMP_LTZ(`time`, 0), WATERMARK FOR `at` AS `at` - INTERVAL '5' SECOND
) WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv')
"""
SINK = """
CREATE TABLE answers (device STRING, `time` BIGINT)
WITH ('connector' = 'filesystem', 'path' = '{out}', 'format' = 'csv')
"""
FLAGS = """
CREATE VIEW flags AS SELECT device, `time`, `at` FROM readings WHERE level = 'high'
"""
MATCH = """
INSERT INTO answers SELECT device, `time` FROM readings MATCH_RECOGNIZE (
  PARTITION BY device ORDER BY `at`
  MEASURES A.`time` AS `time`
  ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW
  PATTERN (A B C)
  DEFINE A AS A.level = 'high',
         B AS B.level = 'high' AND B.`time` = A.`time` + 1,
         C AS C.level = 'high' AND C.`time` = A.`time` + 2)
"""
JOIN = """
INSERT INTO answers SELECT a.device, a.`time` FROM flags AS a
JOIN flags AS b ON b.device = a.device
  AND b.`at` BETWEEN a.`at` + INTERVAL '1' SECOND AND a.`at` + INTERVAL '1' SECOND
JOIN flags AS c ON c.device = b.device
  AND c.`at` BETWEEN b.`at` + INTERVAL '1' SECOND AND b.`at` + INTERVAL '1' SECOND
"""


def main(kind: str, path: str, out: str) -> None:
    config = Configuration()
    for name, value in {
        "parallelism.default": "1",
        "taskmanager.numberOfTaskSlots": "8",
        "table.local-time-zone": "UTC",
        "rest.bind-address": "127.0.0.1",
        "rest.address": "127.0.0.1",
    }.items():
        config.set_string(name, value)
    made = EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(config)
    environment = TableEnvironment.create(made.build())
    for statement in (SOURCE.format(path=path), SINK.format(out=out), FLAGS):
        environment.execute_sql(statement)
    start = time.perf_counter()
    environment.execute_sql({"match": MATCH, "join": JOIN}[kind]).wait()
    seconds = time.perf_counter() - start
    files = [p for p in Path(out).rglob("*") if p.is_file() and not p.name.startswith((".", "_"))]
    answers = sum(p.read_bytes().count(b"\n") for p in files)
    print(json.dumps({"seconds": seconds, "answers": answers}))


if __name__ == "__main__":
    main(*sys.argv[1:])
