"""Who may do what on a broker: the table says what each API needs, the service decides, and what is refused is told."""
