"""Two predictions on one Ray cluster: a good one on top of a model file, and one with a wrong label in the support."""

import sys
from pathlib import Path

import polars as pl

from resus.cluster import cluster
from resus.cluster.prediction import predict_on_ray
from resus.errors import DataError

PARTITIONS = 8  # of so few rows; Ray makes 200


def main(folder: Path) -> None:
    support, query = folder / "support.parquet", folder / "query.parquet"
    with cluster(2):
        from ray.data import DataContext  # `cluster` sets what Ray reads when it is imported

        DataContext.get_current().default_hash_shuffle_parallelism = PARTITIONS
        scored = predict_on_ray(
            folder / "on-top",
            support,
            query,
            folder / "ray.parquet",
            workers=2,
            block_rows=97,
            score_with=folder / "model.txt",
        )
        sys.stdout.write(f"{scored.rows} {scored.events} {scored.unknown}\n")
        bad = pl.read_parquet(support).with_columns(click=pl.lit(1).cast(pl.Int64))
        bad[150, "click"] = 7
        bad.write_parquet(folder / "bad.parquet")
        try:
            predict_on_ray(
                folder / "run", folder / "bad.parquet", query, folder / "none.parquet", workers=2, block_rows=97
            )
        except DataError as error:
            sys.stdout.write(f"{error}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
