"""The manual, and the program that writes its generated parts."""
