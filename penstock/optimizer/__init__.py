"""From what is asked to how it is done: rules that turn plans into plans with the same answer."""
