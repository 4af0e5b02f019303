"""Rules that say why a subscription does not drain."""
