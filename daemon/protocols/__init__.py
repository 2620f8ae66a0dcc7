"""Wire protocols: each file translates wire messages into session calls and events into wire messages."""
