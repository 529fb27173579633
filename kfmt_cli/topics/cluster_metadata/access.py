"""Access control entries, SCRAM credentials, delegation tokens.

Source: the messages of Kafka 4.2, `org.apache.kafka.common.metadata`.
"""

from kfmt_cli.core.layout.field import MILLISECONDS, Field
from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.core.layout.protocol import Blob, ListOf, String, UuidType
from kfmt_cli.core.layout.wire import Int8, Int32, Int64
from kfmt_cli.topics.decoder import Message

SOURCE = "org.apache.kafka.common.metadata"
OPERATIONS = (
    "UNKNOWN",
    "ANY",
    "ALL",
    "READ",
    "WRITE",
    "CREATE",
    "DELETE",
    "ALTER",
    "DESCRIBE",
    "CLUSTER_ACTION",
    "DESCRIBE_CONFIGS",
    "ALTER_CONFIGS",
    "IDEMPOTENT_WRITE",
    "CREATE_TOKENS",
    "DESCRIBE_TOKENS",
    "TWO_PHASE_COMMIT",
)
ACL_RESOURCES = (
    "UNKNOWN",
    "ANY",
    "TOPIC",
    "GROUP",
    "CLUSTER",
    "TRANSACTIONAL_ID",
    "DELEGATION_TOKEN",
    "USER",
)
PATTERNS = ("UNKNOWN", "ANY", "MATCH", "LITERAL", "PREFIXED")
PERMISSIONS = ("UNKNOWN", "ANY", "DENY", "ALLOW")
MECHANISMS = ("UNKNOWN", "SCRAM-SHA-256", "SCRAM-SHA-512")

ACCESS_CONTROL_ENTRY_RECORD = Layout(
    "AccessControlEntryRecord",
    "An access control entry is created.",
    SOURCE,
    (
        Field("id", UuidType, "Id of the entry."),
        Field("resource_type", Int8, "Type of the resource.", symbols=ACL_RESOURCES),
        Field("resource_name", String, "Name of the resource."),
        Field("pattern_type", Int8, "Pattern type of the resource name.", symbols=PATTERNS),
        Field("principal", String, "Principal."),
        Field("host", String, "The host, * for any."),
        Field("operation", Int8, "What is allowed or denied.", symbols=OPERATIONS),
        Field(
            "permission_type",
            Int8,
            "Whether the operation is allowed or denied.",
            symbols=PERMISSIONS,
        ),
    ),
    versions=(0, 0),
    flexible_since=0,
)

REMOVE_ACCESS_CONTROL_ENTRY_RECORD = Layout(
    "RemoveAccessControlEntryRecord",
    "An access control entry is deleted.",
    SOURCE,
    (Field("id", UuidType, "Id of the deleted entry."),),
    versions=(0, 0),
    flexible_since=0,
)

USER_SCRAM_CREDENTIAL_RECORD = Layout(
    "UserScramCredentialRecord",
    "A user's SCRAM credential, including its secrets.",
    SOURCE,
    (
        Field("name", String, "The user."),
        Field("mechanism", Int8, "The SCRAM mechanism.", symbols=MECHANISMS),
        Field("salt", Blob, "The salt."),
        Field("stored_key", Blob, "The hashed client key."),
        Field("server_key", Blob, "The server key."),
        Field("iterations", Int32, "Iteration count."),
    ),
    versions=(0, 0),
    flexible_since=0,
)

REMOVE_USER_SCRAM_CREDENTIAL_RECORD = Layout(
    "RemoveUserScramCredentialRecord",
    "A user's SCRAM credential is deleted.",
    SOURCE,
    (
        Field("name", String, "The user."),
        Field("mechanism", Int8, "The SCRAM mechanism.", symbols=MECHANISMS),
    ),
    versions=(0, 0),
    flexible_since=0,
)

DELEGATION_TOKEN_RECORD = Layout(
    "DelegationTokenRecord",
    "A delegation token is created or renewed.",
    SOURCE,
    (
        Field("owner", String, "Owner of the token."),
        Field("requester", String, "Principal that requested the token."),
        Field("renewers", ListOf(String), "Principals that may renew the token."),
        Field("issue_timestamp", Int64, "When the token was created.", unit=MILLISECONDS),
        Field(
            "max_timestamp",
            Int64,
            "Latest time to which the token can be renewed.",
            unit=MILLISECONDS,
        ),
        Field("expiration_timestamp", Int64, "When the token expires.", unit=MILLISECONDS),
        Field("token_id", String, "The token."),
    ),
    versions=(0, 0),
    flexible_since=0,
)

REMOVE_DELEGATION_TOKEN_RECORD = Layout(
    "RemoveDelegationTokenRecord",
    "A delegation token is deleted.",
    SOURCE,
    (Field("token_id", String, "The token."),),
    versions=(0, 0),
    flexible_since=0,
)

MESSAGES = (
    Message(18, ACCESS_CONTROL_ENTRY_RECORD),
    Message(19, REMOVE_ACCESS_CONTROL_ENTRY_RECORD),
    Message(11, USER_SCRAM_CREDENTIAL_RECORD),
    Message(22, REMOVE_USER_SCRAM_CREDENTIAL_RECORD),
    Message(10, DELEGATION_TOKEN_RECORD),
    Message(26, REMOVE_DELEGATION_TOKEN_RECORD),
)
