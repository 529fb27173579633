"""check: the plan: the ordered steps before the next start, and what each costs."""
