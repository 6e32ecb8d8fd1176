"""The pure core: bounds, laws, windows and verdict. Takes values, returns values."""
