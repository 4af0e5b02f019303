"""Read a topic with Spark and query it with SQL: `python first_query.py TOPIC`, with DATABASE_URL set."""

import os
import sys

from pipeline.session import spark_session

spark = spark_session("first query")
messages = spark.read.format("vela").options(topic=sys.argv[1], url=os.environ["DATABASE_URL"]).load()
messages.selectExpr("parse_json(cast(value AS string)) AS order", "__publishTime").createOrReplaceTempView(
    "orders"
)
spark.sql("""
    SELECT order:article::string AS article, sum(order:pieces::int) AS pieces, max(__publishTime) AS latest
    FROM orders GROUP BY article ORDER BY article
""").show(truncate=False)
spark.stop()
