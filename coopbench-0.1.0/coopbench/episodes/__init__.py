"""Episodes: results of play as arrays with named axes, and what is computed while playing."""
