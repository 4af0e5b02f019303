"""Operations that read logs. They need the role reader, except the delivery story, which shows no content."""
