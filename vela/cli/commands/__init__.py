"""The commands. Each module has commands that belong together; `vela.cli.root` names them all."""
