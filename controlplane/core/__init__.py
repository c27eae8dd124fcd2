"""Pure: values in, values out. No clock, no chance, no I/O, no framework belongs here."""
