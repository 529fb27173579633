"""What comes before each request and response on the wire.

Source: the messages of Kafka 4.2, `org.apache.kafka.common.message`.
"""

from kfmt_cli.core.layout.field import Field
from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.core.layout.protocol import String
from kfmt_cli.core.layout.wire import Int16, Int32

SOURCE = "org.apache.kafka.common.message"

REQUEST_HEADER_DATA = Layout(
    "RequestHeaderData",
    "What comes before every request, after its size.",
    SOURCE,
    (
        Field("request_api_key", Int16, "Which request it is."),
        Field("request_api_version", Int16, "Version of the request."),
        Field(
            "correlation_id",
            Int32,
            "The number that the client gave the request; its response has the same.",
        ),
        Field(
            "client_id",
            String,
            "The name that the client gives itself.",
            nullable_since=1,
            classic=True,
        ),
    ),
    versions=(1, 2),
    flexible_since=2,
)

RESPONSE_HEADER_DATA = Layout(
    "ResponseHeaderData",
    "What comes before every response, after its size.",
    SOURCE,
    (
        Field(
            "correlation_id",
            Int32,
            "The number that the client gave the request; its response has the same.",
        ),
    ),
    versions=(0, 1),
    flexible_since=1,
)
