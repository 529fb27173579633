"""The headers of requests and responses.

Source: the messages of Kafka 4.2, `org.apache.kafka.common.message`.
"""

from kfmt_cli.core.layout.field import Field
from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.core.layout.protocol import String
from kfmt_cli.core.layout.wire import Int16, Int32

SOURCE = "org.apache.kafka.common.message"

REQUEST_HEADER_DATA = Layout(
    "RequestHeaderData",
    "Header of every request, after the size field.",
    SOURCE,
    (
        Field("request_api_key", Int16, "API key of the request."),
        Field("request_api_version", Int16, "Version of the request."),
        Field(
            "correlation_id",
            Int32,
            "Correlation id assigned by the client; the response repeats it.",
        ),
        Field(
            "client_id",
            String,
            "Client id.",
            nullable_since=1,
            classic=True,
        ),
    ),
    versions=(1, 2),
    flexible_since=2,
)

RESPONSE_HEADER_DATA = Layout(
    "ResponseHeaderData",
    "Header of every response, after the size field.",
    SOURCE,
    (
        Field(
            "correlation_id",
            Int32,
            "Correlation id assigned by the client; the response repeats it.",
        ),
    ),
    versions=(0, 1),
    flexible_since=1,
)
