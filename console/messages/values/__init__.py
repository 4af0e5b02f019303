"""Values inside messages, as filters test them and columns show them."""
