"""The nightly chain as an Airflow DAG: roll-ups, then the report.

Put it into the folder of DAGs; the workers need `lagwatch[spark]`, Java 17 or newer, and the
configuration. Airflow 2.10 or newer.
"""

from datetime import UTC, datetime, timedelta

try:
    from airflow.providers.standard.operators.bash import BashOperator
    from airflow.sdk import DAG
except ImportError:  # Airflow 2
    from airflow import DAG
    from airflow.operators.bash import BashOperator

CONFIG = "/etc/lagwatch/lagwatch.toml"

with DAG(
    dag_id="lagwatch_nightly",
    schedule="15 2 * * *",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,  # a roll-up makes up for the nights before by itself
    max_active_runs=1,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=10)},
    tags=["kafka", "lagwatch"],
) as dag:
    BashOperator(
        task_id="nightly",
        # exit code 1: done, and something was set aside; the log names it
        bash_command=f"lagwatch nightly --config {CONFIG} || [ $? -eq 1 ]",
        execution_timeout=timedelta(hours=4),
    )
