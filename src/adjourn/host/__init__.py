"""This machine: which programs are started, and how. Nothing here knows of tasks, policies or stores."""
