"""Coverage-guided fuzzing of everything that reads what others send (atheris); bounded runs, ``make fuzz``."""
