"""Tests of the project folder: settings and the supervisor."""
