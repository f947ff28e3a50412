"""The variables that a collector process gets."""

from lagwatch.collector.supervisor import collector_environment


def test_a_collector_gets_no_variable_that_it_does_not_need() -> None:
    ours = {
        "PATH": "/bin",
        "LC_ALL": "C.UTF-8",
        "PYTHONPATH": "/src",
        "KRB5_CONFIG": "/etc/krb5.conf",
        "LAGWATCH_CLUSTERS__A__SASL__PASSWORD": "hunter2",
        "lagwatch_clusters__a__sasl__username": "hunter2",
        "AWS_SECRET_ACCESS_KEY": "hunter2",
    }

    assert collector_environment(ours) == {
        "MALLOC_ARENA_MAX": "2",
        "PATH": "/bin",
        "LC_ALL": "C.UTF-8",
        "PYTHONPATH": "/src",
        "KRB5_CONFIG": "/etc/krb5.conf",
    }


def test_a_collector_that_logs_in_by_aws_gets_the_variables_of_aws() -> None:
    ours = {"AWS_SECRET_ACCESS_KEY": "hunter2", "AWS_PROFILE": "kafka", "LAGWATCH_X": "hunter2"}

    assert collector_environment(ours, aws=True) == {
        "MALLOC_ARENA_MAX": "2",
        "AWS_SECRET_ACCESS_KEY": "hunter2",
        "AWS_PROFILE": "kafka",
    }
