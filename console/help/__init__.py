"""The documentation, which the console serves without internet, login or database."""
