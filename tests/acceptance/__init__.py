"""Tests that start a whole Vela and use it from outside, as clients and operators do."""
