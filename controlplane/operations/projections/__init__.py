"""What follows committed states: Delta tables, and packs of their small files."""
