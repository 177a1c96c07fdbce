"""What chance breaks in a random schedule."""
