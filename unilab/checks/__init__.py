"""What can be looked at in milliseconds, without a process: the machine, the installation, the config."""
