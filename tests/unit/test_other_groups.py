"""Which groups are share or streams groups, when Kafka's client lists only the other kinds."""

from lagwatch.kafka.groups import of_other_kinds

EVERY = {"billing", "mailer", "shares"}


def test_what_only_the_older_list_has_is_of_another_kind() -> None:
    assert of_other_kinds(EVERY, {"billing", "mailer"}, known=set(), complete=True) == {"shares"}


def test_groups_of_a_broker_that_does_not_answer_are_not_of_another_kind() -> None:
    assert of_other_kinds(EVERY, {"billing"}, known=set(), complete=False) == set()
    assert of_other_kinds(EVERY, set(), known={"shares"}, complete=False) == {"shares"}


def test_a_group_that_was_listed_since_then_and_is_gone_is_not_of_another_kind() -> None:
    listed = {"billing", "mailer", "shares"}

    assert of_other_kinds(EVERY, listed, known=set(), complete=True) == set()


def test_a_group_that_was_deleted_meanwhile_is_not_kept() -> None:
    assert of_other_kinds({"billing"}, set(), known={"shares"}, complete=False) == set()
