"""Where sound comes from: PCM as senders declare it, files, and the microphone."""
