"""Kinds of acts: `registry` names them all, `base` says what one is, the other files are the kinds themselves."""
