"""A window with a text field. On standard output it tells what it holds, as JSON, whenever that changed.

Run by the system's Python, which has Tk. Arguments: the window's class.
"""

import json
import sys
import tkinter

root = tkinter.Tk(className=sys.argv[1])
text = tkinter.Text(root)
text.event_add("<<Paste>>", "<Shift-Insert>")  # as GTK, Qt and browsers have it
text.pack()


def tell(_event: object) -> None:
    text.edit_modified(False)
    print(json.dumps(text.get("1.0", "end-1c")), flush=True)


text.bind("<FocusIn>", tell)
text.bind("<<Modified>>", tell)
text.focus_force()
root.mainloop()
