"""The commands, a module for those that belong together. `vela.cli.root` names them all."""
