"""What spark-submit runs: the command `lagwatch`, in the Spark that was started for it.

    lagwatch jobs package lagwatch-jobs.zip
    spark-submit --master spark://master:7077 --archives environment.tar.gz#environment \
        --conf spark.pyspark.python=./environment/bin/python \
        --py-files lagwatch-jobs.zip job.py rollup --config lagwatch.toml

Driver and executors need the packages of `lagwatch[elastic,spark]` beside it: as an archive of a
virtual environment, as here and in docs/jobs.md, in their image, or installed on the machines.
"""

from lagwatch.cli import main

main()
