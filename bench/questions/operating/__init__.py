"""What operators' requests cost the messages beside them."""
