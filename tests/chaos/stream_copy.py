"""The streaming driver that `tests.chaos.pipeline` kills: copies a topic until it is killed, or to its current end."""

from __future__ import annotations

import argparse

from pipeline.session import spark_session


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser()
    for name in ("--source", "--target", "--url", "--service-url", "--checkpoint"):
        parser.add_argument(name, required=True)
    parser.add_argument("--to-the-end", action="store_true", help="stop at the source's current end")
    given = parser.parse_args()
    spark = spark_session("vela stream copy", memory="768m")
    spark.sparkContext.setLogLevel("ERROR")
    writer = (
        spark.readStream.format("vela")
        .options(topic=given.source, url=given.url, startingOffsets="earliest")
        .options(maxRowsPerTrigger="50000", partitionBytes="131072")
        .load()
        .writeStream.format("vela")
        .options(serviceUrl=given.service_url, topic=given.target, batchRows="200")
        .option("checkpointLocation", given.checkpoint)
    )
    if given.to_the_end:
        writer = writer.trigger(availableNow=True)
    writer.start().awaitTermination()


if __name__ == "__main__":
    main()
