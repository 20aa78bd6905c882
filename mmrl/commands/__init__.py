"""The commands around training: look around, start, generate, export. One file a command; `mmrl.cli` calls them."""
