"""The daemon's life and its sockets."""
