"""kfmt: shows, checks and rescues what is really on a Kafka broker's disk."""

__version__ = "0.1.0"
