"""The requests of Kafka's protocol, and the header version for each request version.

Source: `org.apache.kafka.common.protocol.ApiKeys` and the request messages of Kafka 4.4; for
removed requests, the messages of 3.9.
"""

from __future__ import annotations

from dataclasses import dataclass

API_VERSIONS_KEY, CONTROLLED_SHUTDOWN_KEY = 18, 7


@dataclass(frozen=True, slots=True)
class ApiSpec:
    """A request, with the versions that brokers support."""

    key: int
    name: str
    first_version: int
    last_version: int
    flexible_since: int | None
    """The first version with tagged fields in its header; None if no version has them."""
    is_removed: bool = False
    """Whether current brokers no longer support it."""

    def request_header_version(self, api_version: int) -> int:
        """The header version of a request of a version."""
        if self.key == CONTROLLED_SHUTDOWN_KEY and api_version == 0:
            return 0
        return 2 if self._is_flexible_version(api_version) else 1

    def response_header_version(self, api_version: int) -> int:
        """The header version of the response to a request of a version.

        A client requests ApiVersions before it knows which versions the broker supports, so that
        response always has the oldest header.
        """
        return 1 if self._is_flexible_version(api_version) and self.key != API_VERSIONS_KEY else 0

    def _is_flexible_version(self, api_version: int) -> bool:
        return self.flexible_since is not None and api_version >= self.flexible_since


APIS = (
    ApiSpec(0, "Produce", 3, 13, 9),
    ApiSpec(1, "Fetch", 4, 18, 12),
    ApiSpec(2, "ListOffsets", 1, 11, 6),
    ApiSpec(3, "Metadata", 0, 13, 9),
    ApiSpec(4, "LeaderAndIsr", 0, 7, 4, is_removed=True),
    ApiSpec(5, "StopReplica", 0, 4, 2, is_removed=True),
    ApiSpec(6, "UpdateMetadata", 0, 8, 6, is_removed=True),
    ApiSpec(7, "ControlledShutdown", 0, 3, 3, is_removed=True),
    ApiSpec(8, "OffsetCommit", 2, 10, 8),
    ApiSpec(9, "OffsetFetch", 1, 10, 6),
    ApiSpec(10, "FindCoordinator", 0, 6, 3),
    ApiSpec(11, "JoinGroup", 0, 9, 6),
    ApiSpec(12, "Heartbeat", 0, 4, 4),
    ApiSpec(13, "LeaveGroup", 0, 5, 4),
    ApiSpec(14, "SyncGroup", 0, 5, 4),
    ApiSpec(15, "DescribeGroups", 0, 6, 5),
    ApiSpec(16, "ListGroups", 0, 5, 3),
    ApiSpec(17, "SaslHandshake", 0, 1, None),
    ApiSpec(18, "ApiVersions", 0, 5, 3),
    ApiSpec(19, "CreateTopics", 2, 7, 5),
    ApiSpec(20, "DeleteTopics", 1, 6, 4),
    ApiSpec(21, "DeleteRecords", 0, 2, 2),
    ApiSpec(22, "InitProducerId", 0, 6, 2),
    ApiSpec(23, "OffsetForLeaderEpoch", 2, 4, 4),
    ApiSpec(24, "AddPartitionsToTxn", 0, 5, 3),
    ApiSpec(25, "AddOffsetsToTxn", 0, 4, 3),
    ApiSpec(26, "EndTxn", 0, 5, 3),
    ApiSpec(27, "WriteTxnMarkers", 1, 2, 1),
    ApiSpec(28, "TxnOffsetCommit", 0, 6, 3),
    ApiSpec(29, "DescribeAcls", 1, 3, 2),
    ApiSpec(30, "CreateAcls", 1, 3, 2),
    ApiSpec(31, "DeleteAcls", 1, 3, 2),
    ApiSpec(32, "DescribeConfigs", 1, 4, 4),
    ApiSpec(33, "AlterConfigs", 0, 2, 2),
    ApiSpec(34, "AlterReplicaLogDirs", 1, 2, 2),
    ApiSpec(35, "DescribeLogDirs", 1, 5, 2),
    ApiSpec(36, "SaslAuthenticate", 0, 2, 2),
    ApiSpec(37, "CreatePartitions", 0, 3, 2),
    ApiSpec(38, "CreateDelegationToken", 1, 3, 2),
    ApiSpec(39, "RenewDelegationToken", 1, 2, 2),
    ApiSpec(40, "ExpireDelegationToken", 1, 2, 2),
    ApiSpec(41, "DescribeDelegationToken", 1, 3, 2),
    ApiSpec(42, "DeleteGroups", 0, 3, 2),
    ApiSpec(43, "ElectLeaders", 0, 2, 2),
    ApiSpec(44, "IncrementalAlterConfigs", 0, 1, 1),
    ApiSpec(45, "AlterPartitionReassignments", 0, 1, 0),
    ApiSpec(46, "ListPartitionReassignments", 0, 0, 0),
    ApiSpec(47, "OffsetDelete", 0, 0, None),
    ApiSpec(48, "DescribeClientQuotas", 0, 1, 1),
    ApiSpec(49, "AlterClientQuotas", 0, 1, 1),
    ApiSpec(50, "DescribeUserScramCredentials", 0, 0, 0),
    ApiSpec(51, "AlterUserScramCredentials", 0, 0, 0),
    ApiSpec(52, "Vote", 0, 2, 0),
    ApiSpec(53, "BeginQuorumEpoch", 0, 1, 1),
    ApiSpec(54, "EndQuorumEpoch", 0, 1, 1),
    ApiSpec(55, "DescribeQuorum", 0, 2, 0),
    ApiSpec(56, "AlterPartition", 2, 3, 2),
    ApiSpec(57, "UpdateFeatures", 0, 2, 0),
    ApiSpec(58, "Envelope", 0, 0, 0),
    ApiSpec(59, "FetchSnapshot", 0, 1, 0),
    ApiSpec(60, "DescribeCluster", 0, 2, 0),
    ApiSpec(61, "DescribeProducers", 0, 0, 0),
    ApiSpec(62, "BrokerRegistration", 0, 4, 0),
    ApiSpec(63, "BrokerHeartbeat", 0, 2, 0),
    ApiSpec(64, "UnregisterBroker", 0, 0, 0),
    ApiSpec(65, "DescribeTransactions", 0, 0, 0),
    ApiSpec(66, "ListTransactions", 0, 2, 0),
    ApiSpec(67, "AllocateProducerIds", 0, 0, 0),
    ApiSpec(68, "ConsumerGroupHeartbeat", 0, 1, 0),
    ApiSpec(69, "ConsumerGroupDescribe", 0, 1, 0),
    ApiSpec(70, "ControllerRegistration", 0, 0, 0),
    ApiSpec(71, "GetTelemetrySubscriptions", 0, 0, 0),
    ApiSpec(72, "PushTelemetry", 0, 0, 0),
    ApiSpec(73, "AssignReplicasToDirs", 0, 0, 0),
    ApiSpec(74, "ListConfigResources", 0, 1, 0),
    ApiSpec(75, "DescribeTopicPartitions", 0, 0, 0),
    ApiSpec(76, "ShareGroupHeartbeat", 1, 1, 1),
    ApiSpec(77, "ShareGroupDescribe", 1, 1, 1),
    ApiSpec(78, "ShareFetch", 1, 2, 1),
    ApiSpec(79, "ShareAcknowledge", 1, 2, 1),
    ApiSpec(80, "AddRaftVoter", 0, 1, 0),
    ApiSpec(81, "RemoveRaftVoter", 0, 0, 0),
    ApiSpec(82, "UpdateRaftVoter", 0, 0, 0),
    ApiSpec(83, "InitializeShareGroupState", 0, 0, 0),
    ApiSpec(84, "ReadShareGroupState", 0, 0, 0),
    ApiSpec(85, "WriteShareGroupState", 0, 1, 0),
    ApiSpec(86, "DeleteShareGroupState", 0, 0, 0),
    ApiSpec(87, "ReadShareGroupStateSummary", 0, 1, 0),
    ApiSpec(88, "StreamsGroupHeartbeat", 0, 1, 0),
    ApiSpec(89, "StreamsGroupDescribe", 0, 1, 0),
    ApiSpec(90, "DescribeShareGroupOffsets", 0, 1, 0),
    ApiSpec(91, "AlterShareGroupOffsets", 0, 0, 0),
    ApiSpec(92, "DeleteShareGroupOffsets", 0, 0, 0),
    ApiSpec(93, "StreamsGroupTopologyDescriptionUpdate", 0, 0, 0),
    ApiSpec(94, "UnregisterController", 0, 0, 0),
)
API_BY_KEY = {api.key: api for api in APIS}
API_BY_NAME = {api.name.lower(): api for api in APIS}
