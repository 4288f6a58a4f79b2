"""Rules: policies whose actions are clipped linear functions of named inputs."""
