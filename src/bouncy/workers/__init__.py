"""Workers: what a thread, a process or a machine advances in slices, and what a checkpoint stores."""
