"""stenod: a streaming real-time transcription daemon."""
