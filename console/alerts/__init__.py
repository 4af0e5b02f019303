"""Alert rules as people write them: the form, and the code that stores and changes them."""
