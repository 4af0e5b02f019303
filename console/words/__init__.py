"""What the pages say in words and in numbers."""
