"""ACLs of the user alice on the secured broker."""

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from lagwatch.kafka.embedded import EmbeddedKafka


class Rights:
    """Grants ACLs to alice."""

    def __init__(self, kafka: EmbeddedKafka) -> None:
        self._admin = AdminClient(kafka.admin_config())

    def grant(self, operation: AclOperation, kind: ResourceType, name: str) -> None:
        binding = AclBinding(
            kind,
            name,
            ResourcePatternType.LITERAL,
            "User:alice",
            "*",
            operation,
            AclPermissionType.ALLOW,
        )
        self._admin.create_acls([binding])[binding].result(30)

    def revoke_all(self) -> None:
        mine = AclBindingFilter(
            ResourceType.ANY,
            None,  # type: ignore[arg-type]  # its stub lacks that None matches any
            ResourcePatternType.ANY,
            "User:alice",
            None,  # type: ignore[arg-type]  # as above
            AclOperation.ANY,
            AclPermissionType.ANY,
        )
        self._admin.delete_acls([mine])[mine].result(30)
