"""The controller's decisions, sans I/O: placement, election, fencing, ISR changes, reassignment.

One broker at a time holds the controller lease and runs :class:`~minikafka.controller.controller.Controller`. It works on
its own copy of the cluster image; each decision is a set of records to write to the store under the controller epoch.
Answers are held back until the store has taken the records, so nothing is promised that another controller may not find.
"""
