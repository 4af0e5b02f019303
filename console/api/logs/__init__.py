"""Operations that show what is in logs. They need the right to see payloads."""
