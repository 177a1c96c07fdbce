"""The objects that a cluster consists of: how each should be, and in what one that is there differs."""
