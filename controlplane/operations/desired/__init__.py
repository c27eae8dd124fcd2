"""What people want: blueprints, pins, connections, tokens, and the controls of an operator."""
