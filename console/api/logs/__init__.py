"""Operations that show the content of logs. They need the right to see payloads."""
