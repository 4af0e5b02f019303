"""End-to-end encryption: producers encrypt, consumers with the key decrypt, the broker sees ciphertext only."""
