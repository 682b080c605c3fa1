"""What `spark_stream` and `nexmark` ask for in Flink SQL, run by the Python that has PyFlink.

`_flink.py JOB PATH OUT ROUNDS`: CSV files in, without header; the answers of each round to a folder
of OUT; the least seconds, and how many answers there were, as JSON.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from pyflink.common import Configuration
from pyflink.table import EnvironmentSettings, TableEnvironment

READINGS = """
CREATE TABLE readings (
  device STRING, level STRING, `time` BIGINT,
  `at` AS TO_TIMESTAMP_LTZ(`time`, 0), WATERMARK FOR `at` AS `at` - INTERVAL '5' SECOND
) WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv')
"""
FLAGS = """
CREATE VIEW flags AS SELECT device, `time`, `at` FROM readings WHERE level = 'high'
"""
MATCH = """
SELECT device, `time` FROM readings MATCH_RECOGNIZE (
  PARTITION BY device ORDER BY `at`
  MEASURES A.`time` AS `time`
  ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW
  PATTERN (A B C)
  DEFINE A AS A.level = 'high',
         B AS B.level = 'high' AND B.`time` = A.`time` + 1,
         C AS C.level = 'high' AND C.`time` = A.`time` + 2)
"""
JOIN = """
SELECT a.device, a.`time` FROM flags AS a
JOIN flags AS b ON b.device = a.device
  AND b.`at` BETWEEN a.`at` + INTERVAL '1' SECOND AND a.`at` + INTERVAL '1' SECOND
JOIN flags AS c ON c.device = b.device
  AND c.`at` BETWEEN b.`at` + INTERVAL '1' SECOND AND b.`at` + INTERVAL '1' SECOND
"""
BIDS = """
CREATE TABLE bids (
  auction BIGINT, bidder BIGINT, price BIGINT, `time` BIGINT,
  `at` AS TO_TIMESTAMP_LTZ(`time`, 0), WATERMARK FOR `at` AS `at` - INTERVAL '5' SECOND
) WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv')
"""
COUNTED = """
CREATE VIEW counted AS
SELECT auction, COUNT(*) AS n, window_start, window_end
FROM TABLE(HOP(TABLE bids, DESCRIPTOR(`at`), INTERVAL '1' SECOND, INTERVAL '10' SECOND))
GROUP BY auction, window_start, window_end
"""
# As Nexmark's query 5: a window is told by its last second.
HOT = """
SELECT c.auction, c.n,
  TIMESTAMPDIFF(SECOND, TIMESTAMP '1970-01-01 00:00:00', c.window_end) - 1
FROM counted AS c JOIN (
  SELECT MAX(n) AS most, window_start, window_end FROM counted GROUP BY window_start, window_end
) AS m ON c.window_start = m.window_start AND c.window_end = m.window_end AND c.n = m.most
"""
# The average of whole numbers would be cut to one.
AVERAGE = """
SELECT {by}, AVG(CAST(price AS DOUBLE)) OVER (
  PARTITION BY {by} ORDER BY `at` {frame} PRECEDING AND CURRENT ROW), `time` FROM bids
"""
RECENT = AVERAGE.format(by="auction", frame="RANGE BETWEEN INTERVAL '9' SECOND")
LAST_TEN = AVERAGE.format(by="bidder", frame="ROWS BETWEEN 9")
# What is made first, the columns of the answers, and the query.
JOBS = {
    "match": ((READINGS,), "device STRING, `time` BIGINT", MATCH),
    "join": ((READINGS, FLAGS), "device STRING, `time` BIGINT", JOIN),
    "Hot": ((BIDS, COUNTED), "auction BIGINT, n BIGINT, `time` BIGINT", HOT),
    "Recent": ((BIDS,), "auction BIGINT, average DOUBLE, `time` BIGINT", RECENT),
    "LastTen": ((BIDS,), "bidder BIGINT, average DOUBLE, `time` BIGINT", LAST_TEN),
}
SINK = """
CREATE TABLE answers{n} ({columns})
WITH ('connector' = 'filesystem', 'path' = '{out}', 'format' = 'csv')
"""


def environment() -> TableEnvironment:
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
    return TableEnvironment.create(made.build())


def main(job: str, path: str, out: str, rounds: str) -> None:
    first, columns, query = JOBS[job]
    flink = environment()
    for statement in first:
        flink.execute_sql(statement.format(path=path))
    times = []
    for n in range(int(rounds)):
        folder = Path(out) / str(n)
        flink.execute_sql(SINK.format(n=n, columns=columns, out=folder))
        start = time.perf_counter()
        flink.execute_sql(f"INSERT INTO answers{n} {query}").wait()
        times.append(time.perf_counter() - start)
    files = [p for p in folder.rglob("*") if p.is_file() and not p.name.startswith((".", "_"))]
    answers = sum(p.read_bytes().count(b"\n") for p in files)
    print(json.dumps({"seconds": min(times), "answers": answers}))


if __name__ == "__main__":
    main(*sys.argv[1:])
