"""The ends of the jobs as Spark data sources, in Python: Kafka and Elasticsearch without a jar.

`lagwatch.offsets`, `lagwatch.logends`, `lagwatch.elastic`; `registry.register` makes a session know
them.
"""
