"""From the texts of blueprints to nodes that can be planned: names, modes, identity."""
