"""What was measured → lines and files. Pure, but for the writing."""
