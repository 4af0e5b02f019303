"""The processes that Vela starts and watches."""
