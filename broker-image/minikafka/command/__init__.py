"""What every command of the project has in common."""
