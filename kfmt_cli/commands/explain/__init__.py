"""explain: what a finding means, and how a broker works."""
