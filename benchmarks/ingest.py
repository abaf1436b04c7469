"""How fast tables become logs, and how much memory that takes.

    python -m benchmarks.ingest engines FOLDER     sort 26.6 million rows by DuckDB and by polars, in 4 GB each
    python -m benchmarks.ingest own 100000000      write a CSV of this many rows, prepare a log of it, delete both

`engines` reads the impressions that `resus prepare planted --like taobao --out FOLDER` writes. Each engine runs in its
own process; polars' streaming engine also without a limit, to see what it needs.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

from benchmarks.memory import cost_of

LIMIT = 4 << 30
ENGINES = (("duckdb", LIMIT), ("polars", LIMIT), ("polars", 0))
ROWS_AT_ONCE = 2_000_000
SCHEMA = """
user: user_id
item: item_id
label: clicked
time: at
duplicates: keep
single_events: keep
fields: {device: categorical, tags: multi, price: numeric}
users: {path: users.csv, fields: {country: categorical}}
items: {path: items.csv, fields: {brand: categorical}}
"""


def sort_with(engine: str, source: str, out: str, limit: int) -> None:
    """Sort the impressions by user and time, ties in the order of the file, and print seconds and peak memory."""
    if limit:
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    began = time.perf_counter()
    if engine == "duckdb":
        import duckdb

        kinds = dict.fromkeys(("user", "time_stamp", "adgroup_id"), "BIGINT")
        kinds |= {"pid": "VARCHAR", "nonclk": "TINYINT", "clk": "TINYINT"}
        numbered = f"SELECT *, row_number() OVER () AS row FROM read_csv('{source}', columns={kinds}, header=true)"
        with duckdb.connect(config={"memory_limit": "1GB", "temp_directory": f"{out}/spill", "threads": 2}) as session:
            session.execute(f"COPY ({numbered} ORDER BY user, time_stamp, row) TO '{out}/sorted' (FORMAT parquet)")
    else:
        rows = pl.scan_csv(source, row_index_name="row", schema_overrides={"pid": pl.String})
        rows.sort("user", "time_stamp", "row").sink_parquet(f"{out}/sorted", engine="streaming")
    seconds = time.perf_counter() - began
    print(json.dumps([seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024]))


def engines(folder: Path, repeats: int = 2) -> None:
    source = folder / "raw_sample.csv"
    rows = sum(frame.height for frame in pl.scan_csv(source).select("user").collect_batches())
    for _ in range(repeats):  # in turn, so that a slow phase of the machine affects all
        for engine, limit in ENGINES:
            with tempfile.TemporaryDirectory() as out:
                command = [sys.executable, "-m", "benchmarks.ingest", "sort", engine, str(source), out, str(limit)]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
            allowed = f"within {limit / 2**30:.0f} GiB" if limit else "without a limit"
            if done.returncode:
                said = done.stderr.strip().rpartition("\n")[2] or f"ended with {done.returncode}"
                print(f"{engine}, {allowed}: {said[:200]}", flush=True)
                continue
            seconds, peak = json.loads(done.stdout)
            print(f"{engine}, {allowed}: {rows / seconds:,.0f} rows/s, {peak / 1e9:.2f} GB", flush=True)


def write_table(folder: Path, rows: int) -> None:
    """A click log of one's own: events, users and items, as CSV."""
    random = np.random.default_rng(1)
    n_users, n_items = max(rows // 50, 10), max(rows // 500, 10)
    users, items = pl.Series(np.arange(n_users)), pl.Series(np.arange(n_items))
    country, brand = random.integers(0, 80, n_users), random.integers(0, 3000, n_items)
    pl.DataFrame({"user_id": "u" + users.cast(pl.String), "country": country}).write_csv(folder / "users.csv")
    pl.DataFrame({"item_id": "i" + items.cast(pl.String), "brand": brand}).write_csv(folder / "items.csv")
    devices, tags = pl.Series(["phone", "desktop", "tablet"]), pl.Series(["a|b", "b", "c|d|e", "f"])
    with (folder / "events.csv").open("wb") as stream:
        for start in range(0, rows, ROWS_AT_ONCE):
            count = min(ROWS_AT_ONCE, rows - start)
            item = (n_items * random.random(count) ** 3).astype(np.int64)
            frame = pl.DataFrame(
                {
                    "user_id": "u" + pl.Series(random.integers(0, n_users, count)).cast(pl.String),
                    "item_id": "i" + pl.Series(item).cast(pl.String),
                    "at": 1_700_000_000 + random.integers(0, 10**7, count),
                    "device": devices.gather(random.integers(0, 3, count)),
                    "tags": tags.gather(random.integers(0, 4, count)),
                    "price": random.integers(100, 10**5, count) / 100,
                    "clicked": (random.random(count) < 0.1).astype(np.int8),
                }
            )
            frame.write_csv(stream, include_header=start == 0)
    (folder / "schema.yaml").write_text(SCHEMA)


def own(rows: int) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_table(folder, rows)
        size = (folder / "events.csv").stat().st_size
        print(f"{rows:,} rows of CSV, {size / 1e9:.2f} GB", flush=True)
        table, schema, log = (str(folder / name) for name in ("events.csv", "schema.yaml", "log"))
        command = (sys.executable, "-m", "resus", "prepare", table, "--schema", schema, "--out", log)
        seconds, peak = cost_of(*command, shown=True)
        print(f"prepare: {seconds:.0f} s, {rows / seconds:,.0f} rows/s, peak {peak / 1e9:.2f} GB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = parser.add_subparsers(dest="part", required=True, metavar="engines|own")
    parts.add_parser("engines").add_argument("folder", type=Path)
    parts.add_parser("own").add_argument("rows", type=int)
    one = parts.add_parser("sort")  # one engine in a process of its own
    for name, kind in (("engine", str), ("source", str), ("out", str), ("limit", int)):
        one.add_argument(name, type=kind)
    asked = parser.parse_args()
    if asked.part == "engines":
        engines(asked.folder)
    elif asked.part == "own":
        own(asked.rows)
    else:
        sort_with(asked.engine, asked.source, asked.out, asked.limit)


if __name__ == "__main__":
    main()
