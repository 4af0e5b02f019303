"""Pure rules that say why a subscription does not drain."""
