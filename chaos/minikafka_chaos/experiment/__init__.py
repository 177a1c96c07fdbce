"""An experiment as controller and runner see it: names and labels, its status, what is recorded there, its topics, its budget."""
