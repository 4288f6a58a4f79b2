"""Results: the folder that holds every finished cell, its manifest and its protocol."""
