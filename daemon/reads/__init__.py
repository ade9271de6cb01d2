"""Questions: each reads one snapshot and changes nothing."""
