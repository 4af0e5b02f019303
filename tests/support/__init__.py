"""Support for tests: real servers, scripted peers, clients, clocks."""
