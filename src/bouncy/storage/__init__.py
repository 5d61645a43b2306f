"""Files: written whole or not at all, and read without trusting them."""
