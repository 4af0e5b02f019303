"""The fixtures of tests that run a broker in their own loop."""

from tests.support.broker_fixtures import broker_url, run

__all__ = ["broker_url", "run"]
