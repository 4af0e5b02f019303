"""Support for tests: really started servers, users, clocks."""
