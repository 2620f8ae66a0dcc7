"""The commands, one file each: ``add_parser`` declares its arguments, ``run`` does it."""
