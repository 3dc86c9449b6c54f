"""What is loaded into the processes of programs before anything else."""
