"""Dictation: what is said is typed into the window that has the focus.

- ``spoken``: words and spoken commands in a stream of committed text
- ``prose``: what exactly is typed for them, with spaces and capitals
- ``typists``: the programs that type, behind one protocol; ``focus``: which window has the focus
- ``writer``: types into windows by their rules, remembers what, and takes it back
- ``dictation``: from the microphone to the writer, as it is told to start and stop
- ``control``, ``hotkey``: by whom it is told; ``sounds``: what one hears of it
"""
