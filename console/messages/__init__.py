"""Messages as an operator reads them: finding, opening, decoding and exporting them. Reading changes nothing."""
