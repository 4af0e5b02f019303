"""Why a subscription does not drain: pure rules over one snapshot. They do no I/O and read no clock."""
