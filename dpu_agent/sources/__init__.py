"""Counter sources of particular hardware, as parsers of what the hardware's tools and files say; pure."""
