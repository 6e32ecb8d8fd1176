"""Counter sources of particular hardware: pure parsers of what its tools and files say, and the reader that asks."""
