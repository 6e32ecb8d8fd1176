"""Reads switch ports so that a reading is right or says why it is not."""
