"""Every kind of finding: its code, its meaning and its effect on a broker."""
