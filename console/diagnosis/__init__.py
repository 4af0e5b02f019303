"""Rules that say why the backlog of a subscription does not drain."""
