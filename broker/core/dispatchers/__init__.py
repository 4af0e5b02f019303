"""Who gets which entry: one dispatcher a subscription, chosen by its type."""
