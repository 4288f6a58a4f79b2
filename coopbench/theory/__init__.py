"""Theory of the coopetition games: equilibria, best play, certificates, series."""
