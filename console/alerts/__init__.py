"""Alert rules in the console: the form, the links that offer rules, and the code that stores and changes rules."""
