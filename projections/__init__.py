"""The fold and what it makes: state that can be thrown away and folded again from the journal."""
