"""Where the parts meet: Protocols, and the values that pass between them; a conversation a file."""
