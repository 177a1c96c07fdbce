"""The simulation ground: scenarios of the chaos package in virtual time, and their clients."""
