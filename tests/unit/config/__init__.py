"""Tests of the folder config: settings and the supervisor."""
