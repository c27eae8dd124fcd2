"""Python transforms as text: their identity, and what makes their results volatile."""
