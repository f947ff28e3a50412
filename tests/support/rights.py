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


def _binding(
    operation: AclOperation, kind: ResourceType, name: str, permission: AclPermissionType
) -> AclBinding:
    return AclBinding(
        kind, name, ResourcePatternType.LITERAL, "User:alice", "*", operation, permission
    )


class Rights:
    """Grants ACLs to alice."""

    def __init__(self, kafka: EmbeddedKafka) -> None:
        self._admin = AdminClient(kafka.admin_config())

    def grant(self, operation: AclOperation, kind: ResourceType, name: str) -> None:
        binding = _binding(operation, kind, name, AclPermissionType.ALLOW)
        self._admin.create_acls([binding])[binding].result(30)

    def deny(self, operation: AclOperation, kind: ResourceType, name: str) -> None:
        """Take a right away that a wider ACL grants, until it is given back."""
        binding = _binding(operation, kind, name, AclPermissionType.DENY)
        self._admin.create_acls([binding])[binding].result(30)

    def give_back(self, kind: ResourceType, name: str) -> None:
        denials = AclBindingFilter(
            kind,
            name,
            ResourcePatternType.LITERAL,
            "User:alice",
            None,  # type: ignore[arg-type]  # its stub lacks that None matches any
            AclOperation.ANY,
            AclPermissionType.DENY,
        )
        self._admin.delete_acls([denials])[denials].result(30)

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
