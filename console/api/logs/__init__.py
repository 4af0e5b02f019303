"""Operations that read logs."""
